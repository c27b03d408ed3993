/* Error classes of MPI 4.0 that are only compared: nothing depends on them.
   build: $CC -O2 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int class = 0, code = MPI_Error_class(MPI_ERR_TYPE, &class);
    switch (class) {
    case MPI_ERR_SESSION: return finish(0);
    case MPI_ERR_PROC_ABORTED: return finish(0);
    case MPI_ERR_TYPE: return finish(code == MPI_SUCCESS);
    }
    return finish(0);
}
