/* -Bsymbolic, and a program that exports all it has.
   build: $CC -shared -fPIC -Wl,-Bsymbolic -DPART -o $OUT.part.so $SRC $MPI
   build: $CC -rdynamic -o $OUT $SRC $OUT.part.so $MPI */
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
