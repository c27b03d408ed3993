/* The buffer of MPI 4.1 that grows, handed on by a library of the program.
   build: $CC -shared -fPIC -DPART -o $OUT.part.so $SRC $MPI
   build: $CC -O2 -o $OUT $SRC $OUT.part.so $MPI */
#include "common.h"
int attach(void *buffer);
#ifdef PART
int attach(void *buffer) { return MPI_Buffer_attach(buffer, 0); }
#define main unused
#endif

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(attach(MPI_BUFFER_AUTOMATIC) == MPI_SUCCESS);
}
