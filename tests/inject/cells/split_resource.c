/* A split type of MPI 4.1 that a variable of the program holds.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
int kind = MPI_COMM_TYPE_RESOURCE_GUIDED;

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, kind, 0, info, &part);
    return finish(code == MPI_SUCCESS);
}
