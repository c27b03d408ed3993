/* The same MPI is asked for under two names.
   build: $CC -O1 -o $OUT $SRC $MPI; patchelf --add-needed libmpi.so $OUT */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
