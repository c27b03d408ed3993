/* An error handler that came with MPI 4.0. */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT) == MPI_SUCCESS);
}
