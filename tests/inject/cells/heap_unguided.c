/* A split type of MPI 4.0 by way of an object on the heap.
   build: $CC -O2 -o $OUT $SRC $MPI */
#include <stdlib.h>
#include "common.h"

__attribute__((noinline)) static int *make(int kind) {
    int *made = malloc(sizeof *made);
    *made = kind;
    return made;
}

__attribute__((noinline)) static int split(const int *kind) {
    MPI_Comm part = MPI_COMM_NULL;
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, *kind, 0, MPI_INFO_NULL, &part);
    return code == MPI_SUCCESS;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(split(make(MPI_COMM_TYPE_HW_UNGUIDED)));
}
