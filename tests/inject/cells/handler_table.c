/* A handler of MPI 4.0 from a constant table, by an index that is not known before.
   build: $CC -O2 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"
static const MPI_Errhandler table[] = {MPI_ERRORS_RETURN, MPI_ERRORS_ABORT};

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Errhandler old;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, table[count % 2]);
    int code = MPI_Comm_get_errhandler(MPI_COMM_SELF, &old);
    return finish(code == MPI_SUCCESS && old == MPI_ERRORS_ABORT);
}
