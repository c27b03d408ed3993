/* MINLOC over the pair types, LONG_DOUBLE_INT too.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct { long double v; int i; } in = {10 - rank, rank}, out;
    struct { short v; int i; } a = {rank, rank}, b;
    MPI_Allreduce(&in, &out, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    MPI_Allreduce(&a, &b, 1, MPI_SHORT_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    return finish(out.i == 1 && b.i == 1);
}
