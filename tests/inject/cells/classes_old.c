/* Every error class of MPI 3.1 has a text: a loop over numbers.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int good = 1, length, i, last = MPI_ERR_RMA_SHARED;
    char text[MPI_MAX_ERROR_STRING];
    for (i = MPI_ERR_BUFFER; i <= MPI_ERR_OTHER; i++) good &= !MPI_Error_string(i, text, &length);
    good &= !MPI_Error_string(last, text, &length);
    return finish(good);
}
