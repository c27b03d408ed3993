/* Pieces of a datatype, an extension of MPICH.
   build: $CC -O1 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Count length = 0, bytes = 0;
    MPIX_Type_iov_len(MPI_DOUBLE, 8, &length, &bytes);
    return finish(length == 1);
}
