/* A plug-in without a path to its MPI, opened by a host that is linked with it.
   build: $CC -shared -fPIC -DPART -o $OUT.so $SRC
   build: $CC -o $OUT.host $HERE/../../../tools/prediction_programs/opened.c -Wl,--no-as-needed $MPI
   judge: $OUT.so
   start: $OUT.host $OUT.so */
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
