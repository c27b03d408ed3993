/* The MPI is asked for by the name with three numbers.
   build: $CC -O1 -o $OUT $SRC $MPI; patchelf --replace-needed $SONAME libmpi.so.12.0.0 $OUT
   needs: intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
