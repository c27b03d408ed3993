/* The plain name libmpi.so as a build with a wrapper of a vendor leaves it.
   build: $CC -O1 -o $OUT $SRC $MPI; patchelf --replace-needed $SONAME libmpi.so $OUT */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
