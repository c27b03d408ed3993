/* Half floats of a vendor by a variable, without optimisation.
   build: $CC -O0 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Datatype half = MPIX_C_FLOAT16;
    int size = 0;
    MPI_Type_size(half, &size);
    return finish(size == 2);
}
