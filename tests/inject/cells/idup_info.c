/* MPI_Comm_idup_with_info, MPI_Isendrecv, MPI_Isendrecv_replace of MPI 4.0.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int rank, got = -1;
    MPI_Comm twin;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Isendrecv(&rank, 1, MPI_INT, 1 - rank, 0, &got, 1, MPI_INT, 1 - rank, 0, twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return finish(got == 1 - rank);
}
