/* Functions of MPI 5.0: version of the ABI, handles as integers.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int major, minor;
    MPI_Abi_get_version(&major, &minor);
    return finish(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
}
