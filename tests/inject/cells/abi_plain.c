/* Standard ABI: send and reduce.
   build: $CC -O1 -o $OUT $SRC $MPI
   abi: standard */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int in = 1, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return finish(out == 2);
}
