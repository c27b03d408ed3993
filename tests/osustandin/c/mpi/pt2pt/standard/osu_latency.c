#include "standin.h"

int main(int argc, char **argv)
{
    if (begin(argc, argv, 0, 1) != 0) {
        return 1;
    }
    char *data = calloc(1, (size_t)last + 1);
    head("MPI Latency", RELEASE[0] >= '7' ? "Avg Latency(us)" : "Latency (us)", 1);
    for (int size = first; size <= last; size = next(size)) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < repeats; i++) {
            for (int half = 0; half < 2; half++) {
                if (half == rank) {
                    MPI_Send(data, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD);
                } else {
                    MPI_Recv(data, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                }
            }
        }
        row(size, 1, 1e6 * (MPI_Wtime() - start) / (2.0 * repeats));
    }
    free(data);
    MPI_Finalize();
    return 0;
}
