/* Split types of MPI 4.0 and 4.1 out of a switch, without optimisation.
   build: $CC -O0 -o $OUT $SRC $MPI */
#include "common.h"
static int kind(int count) {
    switch (count) {
    case 1: return MPI_COMM_TYPE_HW_UNGUIDED;
    case 2: return MPI_COMM_TYPE_HW_GUIDED;
    default: return MPI_COMM_TYPE_SHARED;
    }
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm part = MPI_COMM_NULL;
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, kind(count), 0, MPI_INFO_NULL, &part);
    return finish(code == MPI_SUCCESS);
}
