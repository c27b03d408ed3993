/* Texts of the error classes of MPI 4.0 and 4.1, in a loop over a table.
   build: $CC -O3 -funroll-loops -o $OUT $SRC $MPI */
#include "common.h"
static const int codes[] = {MPI_ERR_SESSION, MPI_ERR_PROC_ABORTED, MPI_ERR_VALUE_TOO_LARGE};

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int good = 1, length, i;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (i = 0; i < 3; i++) good = good && MPI_Error_string(codes[i], text,
        &length) == MPI_SUCCESS;
    return finish(good);
}
