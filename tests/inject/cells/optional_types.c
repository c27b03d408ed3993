/* Optional Fortran types: what an MPI has not is a null type.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int good = 1, size, i;
    MPI_Datatype all[] = {MPI_INTEGER8, MPI_REAL8, MPI_COMPLEX16, MPI_LOGICAL, MPI_2INTEGER};
    int sizes[] = {8, 8, 16, 4, 8};
    for (i = 0; i < 5; i++) good &= !MPI_Type_size(all[i], &size) && size == sizes[i];
    return finish(good);
}
