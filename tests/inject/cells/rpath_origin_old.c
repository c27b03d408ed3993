/* A DT_RPATH of $ORIGIN, and links to the MPI beside the program.
   build: mkdir -p $OUT.lib
   build: ln -sf $LIB $OUT.lib/$SONAME
   build: $CC -O1 -o $OUT $SRC $BARE
   build: patchelf --force-rpath --set-rpath '$$ORIGIN/'$$(basename $OUT).lib $OUT */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
