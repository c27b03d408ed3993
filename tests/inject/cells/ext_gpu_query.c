/* Asks a vendor's MPI for GPUs: an extension of each.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define QUERY gpu = MPIX_Query_cuda_support()
#else
#define QUERY MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &gpu)
#endif

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int gpu = 0;
    QUERY;
    return finish(gpu == 0 || gpu == 1);
}
