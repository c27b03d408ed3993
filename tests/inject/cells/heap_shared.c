/* The split type of MPI 3, which all have, by way of an object on the heap.
   build: $CC -O2 -o $OUT $SRC $MPI */
#include <stdlib.h>
#include "common.h"
struct options { int kind; };

__attribute__((noinline)) static struct options *make(int kind) {
    struct options *made = malloc(sizeof *made);
    made->kind = kind;
    return made;
}

__attribute__((noinline)) static int split(struct options *from, MPI_Info info) {
    MPI_Comm part = MPI_COMM_NULL;
    return MPI_Comm_split_type(MPI_COMM_WORLD, from->kind, 0, info, &part);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    return finish(split(make(MPI_COMM_TYPE_SHARED), info) == MPI_SUCCESS);
}
