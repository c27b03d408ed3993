/* A tool that is preloaded and wraps MPI_Init, with a library path of its own.
   build: $CC -shared -fPIC -DPART -o $OUT.tool.so $SRC $MPI
   build: $CC -o $OUT $SRC $MPI
   set: LD_PRELOAD=$OUT.tool.so */
#include "common.h"
#ifdef PART
int MPI_Init(int *count, char ***words) { return PMPI_Init(count, words); }
#else
int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
#endif
