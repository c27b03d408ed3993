/* A class of errors of MPI 4.0: its own class, by its number. */
#include "common.h"

int main(int count, char **words) {
    int class = 0;
    MPI_Init(&count, &words);
    MPI_Error_class(MPI_ERR_VALUE_TOO_LARGE, &class);
    return finish(class == MPI_ERR_VALUE_TOO_LARGE);
}
