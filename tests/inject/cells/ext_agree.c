/* Fault tolerance: agreement of the survivors.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int flag = 1;
    MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
    return finish(flag == 1);
}
