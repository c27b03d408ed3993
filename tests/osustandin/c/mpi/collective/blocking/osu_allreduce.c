#include "standin.h"

int main(int argc, char **argv)
{
    if (begin(argc, argv, 1, 0) != 0) {
        return 1;
    }
    int *from = calloc(1, (size_t)last + 4);
    int *to = calloc(1, (size_t)last + 4);
    head("MPI Allreduce Latency", "Avg Latency(us)", 1);
    for (int size = first < 4 ? 4 : first; size <= last; size = next(size)) {
        double total = 0.0;
        for (int i = 0; i < repeats; i++) {
            double start = MPI_Wtime();
            MPI_Allreduce(from, to, size / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            total += MPI_Wtime() - start;
            MPI_Barrier(MPI_COMM_WORLD);
        }
        row(size, 1, 1e6 * total / repeats);
    }
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
