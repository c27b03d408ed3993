/* A DT_RPATH comes before everything.
   build: $CC -O1 -o $OUT $SRC $BARE -Wl,--disable-new-dtags,-rpath,$DIR */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
