/* Datatypes in a list of the program: which is taken shows only when it runs. */
#include "common.h"

static MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_LOGICAL8};

int main(int count, char **words) {
    MPI_Datatype pair;
    MPI_Init(&count, &words);
    for (int i = 0; i < 3; i++) MPI_Type_contiguous(2, types[i], &pair);
    return finish(1);
}
