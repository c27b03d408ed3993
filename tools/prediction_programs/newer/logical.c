/* A datatype of Fortran that came with MPI 5.0, made into another one. */
#include "common.h"

int main(int count, char **words) {
    MPI_Datatype pair;
    int one = 1, all = 0;
    MPI_Init(&count, &words);
    MPI_Type_contiguous(2, MPI_LOGICAL4, &pair);
    MPI_Allreduce(&one, &all, 1, MPI_LOGICAL4, MPI_LAND, MPI_COMM_WORLD);
    return finish(all != 0);
}
