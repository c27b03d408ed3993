/* A DT_RUNPATH of $ORIGIN, and links to the MPI beside the program.
   build: mkdir -p $OUT.lib; ln -sf $LIB $OUT.lib/$SONAME; $CC -O1 -o $OUT $SRC $BARE; patchelf --set-rpath '$$ORIGIN/'$$(basename $OUT).lib $OUT */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
