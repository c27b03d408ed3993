/* A library between that asks for libmpi.so without numbers.
   build: $CC -shared -fPIC -DPART -o $OUT.part.so $SRC $MPI
   build: patchelf --replace-needed $SONAME libmpi.so $OUT.part.so
   build: $CC -o $OUT $SRC $OUT.part.so -Wl,--allow-shlib-undefined */
#ifdef PART
#include "common.h"
#endif
#ifdef PART
int start(int, char **) __attribute__((visibility("default")));
int start(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
#else
int start(int, char **);
int main(int count, char **words) { return start(count, words); }
#endif
