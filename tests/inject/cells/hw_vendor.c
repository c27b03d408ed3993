/* Split types that are a vendor's own.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
#ifdef OPEN_MPI
#define KIND OMPI_COMM_TYPE_NODE
#else
#define KIND MPIX_COMM_TYPE_NEIGHBORHOOD
#endif

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm part = MPI_COMM_NULL;
    int size = 0;
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, KIND, 0, MPI_INFO_NULL, &part);
    if (part != MPI_COMM_NULL) MPI_Comm_size(part, &size);
    return finish(code == MPI_SUCCESS && size > 0);
}
