/* Datatypes of MPI 3 in a static table: sums over each.
   build: $CC -O2 -fPIE -pie -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"
static MPI_Datatype types[] = {MPI_COUNT, MPI_AINT, MPI_OFFSET, MPI_C_DOUBLE_COMPLEX, MPI_INT64_T,
    MPI_UINT8_T, MPI_LONG_DOUBLE, MPI_SHORT};

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int good = 1, i, size;
    for (i = 0; i < 8; i++) {
        char in[64] = {0}, out[64];
        MPI_Type_size(types[i], &size);
        good &= size > 0 && !MPI_Allreduce(in, out, 1, types[i], MPI_SUM, MPI_COMM_WORLD);
    }
    return finish(good);
}
