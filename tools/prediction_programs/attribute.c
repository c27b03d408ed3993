/* A predefined attribute: which one is got depends on the value of MPI_APPNUM. */
#include "common.h"

int main(int count, char **words) {
    int *number = NULL, flag = 0;
    MPI_Init(&count, &words);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    return finish(flag && *number == 0);
}
