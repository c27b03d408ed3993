/* Streams of MPICH 4.1.
   build: $CC -O1 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPIX_Stream stream;
    MPI_Comm comm;
    MPIX_Stream_create(MPI_INFO_NULL, &stream);
    MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    MPIX_Stream_free(&stream);
    return finish(1);
}
