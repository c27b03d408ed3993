/* The MPI is asked for as Debian names MPICH.
   build: mkdir -p $OUT.d; ln -sf $LIB $OUT.d/libmpich.so.12; $CC -O1 -o $OUT $SRC $MPI -Wl,-rpath,$OUT.d; patchelf --replace-needed $SONAME libmpich.so.12 $OUT
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
