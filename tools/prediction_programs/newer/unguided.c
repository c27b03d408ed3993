/* A kind of split that came with MPI 4.0, by a function of the program's own. */
#include "common.h"

static __attribute__((noinline)) int split(int kind) {
    MPI_Comm part = MPI_COMM_NULL;
    return MPI_Comm_split_type(MPI_COMM_WORLD, kind, 0, MPI_INFO_NULL, &part);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(split(MPI_COMM_TYPE_HW_UNGUIDED) == MPI_SUCCESS);
}
