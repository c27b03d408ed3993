/* A handler of MPI 4.0 through a function of another unit, with link time optimisation.
   build: $CC -O3 -flto -o $OUT $SRC $MPI */
#include "common.h"
__attribute__((noinline)) static int set(MPI_Comm comm, MPI_Errhandler handler) {
    return MPI_Comm_set_errhandler(comm, handler);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(set(MPI_COMM_SELF, MPI_ERRORS_ABORT) == MPI_SUCCESS);
}
