/* Standard ABI: a handler of MPI 4.0 out of a table, and a split type.
   build: $CC -O1 -o $OUT $SRC $MPI
   abi: standard */
#include "common.h"
static MPI_Errhandler handlers[2] = {MPI_ERRORS_RETURN, MPI_ERRORS_ABORT};

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm part;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handlers[count % 2]);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    return finish(part != MPI_COMM_NULL);
}
