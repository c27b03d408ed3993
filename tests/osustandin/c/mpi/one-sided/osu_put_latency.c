#include "standin.h"

int main(int argc, char **argv)
{
    if (begin(argc, argv, 0, 1) != 0) {
        return 1;
    }
    char *data = calloc(1, (size_t)last + 1);
    char *there = NULL;
    MPI_Win shared;
    MPI_Win_allocate(last + 1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &shared);
    head("MPI_Put Latency", "Latency (us)", 1);
    for (int size = first; size <= last; size = next(size)) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, shared);
            for (int i = 0; i < repeats; i++) {
                MPI_Put(data, size, MPI_CHAR, 1, 0, size, MPI_CHAR, shared);
                MPI_Win_flush(1, shared);
            }
            MPI_Win_unlock(1, shared);
        }
        row(size, 1, 1e6 * (MPI_Wtime() - start) / repeats);
    }
    MPI_Win_free(&shared);
    free(data);
    MPI_Finalize();
    return 0;
}
