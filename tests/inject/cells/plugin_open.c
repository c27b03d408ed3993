/* A plug-in that a host opens by path: the plug-in is asked about.
   build: $CC -shared -fPIC -DPART -o $OUT.so $SRC $MPI
   build: $CC -o $OUT.host $HERE/../../../tools/prediction_programs/opened.c
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
