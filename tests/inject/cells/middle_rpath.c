/* MPI below a library that has a DT_RPATH of its own; the program has none.
   build: $CC -shared -fPIC -DPART -o $OUT.part.so $SRC $BARE -Wl,--disable-new-dtags,-rpath,$DIR
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
