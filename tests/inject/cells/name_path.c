/* The MPI is asked for by its whole path.
   build: $CC -O1 -o $OUT $SRC $MPI; patchelf --replace-needed $SONAME $LIB $OUT */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
