/* An error that is to be returned: what happens depends on the value of MPI_ERRORS_RETURN. */
#include "common.h"

int main(int count, char **words) {
    int value = 0;
    MPI_Init(&count, &words);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Send(&value, 1, MPI_INT, 1000, 7, MPI_COMM_WORLD);
    return finish(code != MPI_SUCCESS);
}
