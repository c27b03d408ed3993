#include "standin.h"

int main(int argc, char **argv)
{
    if (begin(argc, argv, 0, 1) != 0) {
        return 1;
    }
    char *data = calloc(1, (size_t)last + 1);
    MPI_Request *requests = calloc((size_t)window, sizeof *requests);
    head("MPI Bandwidth", "Bandwidth (MB/s)", 1);
    for (int size = first; size <= last; size = next(size)) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < repeats; i++) {
            for (int w = 0; w < window; w++) {
                if (rank == 0) {
                    MPI_Isend(data, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[w]);
                } else {
                    MPI_Irecv(data, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[w]);
                }
            }
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        row(size, 1, 1e-6 * size * window * repeats / (MPI_Wtime() - start));
    }
    free(data);
    free(requests);
    MPI_Finalize();
    return 0;
}
