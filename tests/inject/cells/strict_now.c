/* Bound at the start, read-only after, stripped, old hash table, without nodelete.
   build: $CC -O2 -s -o $OUT $SRC $MPI -Wl,-z,now,-z,relro,--hash-style=sysv */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
