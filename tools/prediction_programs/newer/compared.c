/* A class of errors of MPI 4.0 that is only compared with. */
#include "common.h"

int main(int count, char **words) {
    int code;
    MPI_Init(&count, &words);
    code = MPI_Barrier(MPI_COMM_WORLD);
    return finish(code != MPI_ERR_VALUE_TOO_LARGE && code != MPI_ERR_PROC_ABORTED);
}
