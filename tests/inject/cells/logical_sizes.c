/* Logical types of MPI 5.0, taken from a struct.
   build: $CC -O2 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"
static struct {
    int size;
    MPI_Datatype type;
} logical = {4, MPI_LOGICAL4};

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int size = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_size(logical.type, &size);
    return finish(size == logical.size);
}
