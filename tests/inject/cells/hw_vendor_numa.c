/* A split type of Open MPI, whose number another series may count otherwise.
   build: $CC -O1 -o $OUT $SRC $MPI
   needs: openmpi */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm part = MPI_COMM_NULL;
    int size = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, OMPI_COMM_TYPE_HOST, 0, MPI_INFO_NULL, &part);
    MPI_Comm_size(part, &size);
    return finish(size == 2);
}
