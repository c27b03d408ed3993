/* The program forbids the default folders (DF_1_NODEFLIB).
   build: $CC -O1 -o $OUT $SRC $MPI -Wl,-z,nodefaultlib,-rpath,$DIR:/lib/x86_64-linux-gnu */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
