/* A kind of split that came with MPI 4.0: without a hint there is no new communicator. */
#include "common.h"

int main(int count, char **words) {
    MPI_Comm part = MPI_COMM_WORLD;
    MPI_Info info;
    int size = 0;
    MPI_Init(&count, &words);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
    if (part != MPI_COMM_NULL) MPI_Comm_size(part, &size);
    return finish(size > 0);
}
