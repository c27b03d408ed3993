/* An operation of MPICH 4.2. */
#include "common.h"

int main(int count, char **words) {
    int result[2] = {0, 0}, value[2] = {7, 1};
    MPI_Init(&count, &words);
    MPI_Allreduce(value, result, 2, MPI_INT, MPIX_EQUAL, MPI_COMM_WORLD);
    return finish(1);
}
