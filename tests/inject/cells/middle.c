/* MPI only below a library of the program, --as-needed.
   build: $CC -shared -fPIC -DPART -o $OUT.part.so $SRC $MPI -Wl,-z,nodelete
   build: $CC -o $OUT $SRC -Wl,--as-needed $OUT.part.so $MPI */
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
