/* Large counts where they are, by a weak symbol.
   build: $CC -O1 -fPIC -o $OUT $SRC $MPI */
#include "common.h"
#pragma weak MPI_Allreduce_c

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int in = 1, out = 0;
    if (MPI_Allreduce_c) MPI_Allreduce_c(&in, &out, (MPI_Count)1, MPI_INT, MPI_SUM,
        MPI_COMM_WORLD);
    else MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return finish(out == 2);
}
