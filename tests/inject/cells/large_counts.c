/* Large counts: _c functions of MPI 4.0, bound when first called.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int in = 1, out = 0;
    MPI_Count size = 0;
    MPI_Allreduce_c(&in, &out, (MPI_Count)1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Type_size_c(MPI_DOUBLE, &size);
    return finish(out == 2 && size == 8);
}
