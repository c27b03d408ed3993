#include "standin.h"

int main(int argc, char **argv)
{
    if (begin(argc, argv, 1, 0) != 0) {
        return 1;
    }
    head("MPI Barrier Latency", "Avg Latency(us)", 0);
    double start = MPI_Wtime();
    for (int i = 0; i < repeats; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    row(0, 0, 1e6 * (MPI_Wtime() - start) / repeats);
    MPI_Finalize();
    return 0;
}
