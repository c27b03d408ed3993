/* The short number of MPICH 5 and Intel MPI, which they number differently: its size. */
#include "common.h"

int main(int count, char **words) {
    int size = 0;
    MPI_Init(&count, &words);
    MPI_Type_size(MPIX_BFLOAT16, &size);
    return finish(size == 2);
}
