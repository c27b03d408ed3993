/* The MPI is asked for as Debian names MPICH.
   build: mkdir -p $OUT.d
   build: ln -sf $LIB $OUT.d/libmpich.so.12
   build: $CC -O1 -o $OUT $SRC $MPI -Wl,-rpath,$OUT.d
   build: patchelf --replace-needed $SONAME libmpich.so.12 $OUT
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
