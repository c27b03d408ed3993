/* Point to point, collectives, types, communicators, windows. */
#include "common.h"
#include <stdlib.h>

int main(int count, char **words) {
    int rank, size, got = -1, elements = 0, type_size = 0, split_rank, *base;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Status status;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 7, &got, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &elements);
    int *big = calloc(100000, sizeof(int));
    for (int i = 0; i < 100000 && rank == 0; i++) big[i] = i;
    MPI_Bcast(big, 100000, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Comm split;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &split);
    MPI_Comm_rank(split, &split_rank);
    MPI_Comm_free(&split);
    MPI_Datatype vector;
    MPI_Type_vector(3, 2, 4, MPI_FLOAT, &vector);
    MPI_Type_commit(&vector);
    MPI_Type_size(vector, &type_size);
    MPI_Type_free(&vector);
    MPI_Win window;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    *base = 0;
    MPI_Win_fence(0, window);
    int one = 1;
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    int added = *base;
    MPI_Win_free(&window);
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int ok = sum == size * (size + 1) / 2.0 && got == left && elements == 1 &&
             status.MPI_TAG == 7 && big[99999] == 99999 && split_rank == size - 1 - rank &&
             type_size == 24 && (rank || added == size);
    return finish(ok);
}
