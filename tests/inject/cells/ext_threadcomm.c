/* A communicator of threads, of MPICH 4.2.
   build: $CC -O1 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm comm;
    MPIX_Threadcomm_init(MPI_COMM_WORLD, 1, &comm);
    MPIX_Threadcomm_free(&comm);
    return finish(1);
}
