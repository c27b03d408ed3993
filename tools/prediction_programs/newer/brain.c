/* The short number of MPICH 5 and Intel MPI, which they number differently: its sum. */
#include "common.h"

int main(int count, char **words) {
    unsigned short one = 0x3f80, sum = 0;
    int size = 0;
    MPI_Init(&count, &words);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPIX_BFLOAT16, MPI_SUM, MPI_COMM_WORLD);
    return finish(size != 2 || sum == 0x4000);
}
