/* The buffer of MPI 4.1 that grows, by way of an object on the heap.
   build: $CC -O2 -o $OUT $SRC $MPI */
#include <stdlib.h>
#include "common.h"
struct options { void *buffer; int size; };

__attribute__((noinline)) static struct options *make(void *buffer) {
    struct options *made = malloc(sizeof *made);
    made->buffer = buffer;
    made->size = 0;
    return made;
}

__attribute__((noinline)) static int attach(struct options *from) {
    return MPI_Buffer_attach(from->buffer, from->size);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(attach(make(MPI_BUFFER_AUTOMATIC)) == MPI_SUCCESS);
}
