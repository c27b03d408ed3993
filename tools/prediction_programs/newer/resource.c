/* A kind of split that came with MPI 4.1. */
#include "common.h"

int main(int count, char **words) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Init(&count, &words);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, MPI_INFO_NULL, &part);
    return finish(1);
}
