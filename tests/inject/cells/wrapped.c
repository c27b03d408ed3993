/* The program wraps a function of MPI itself.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
static int calls;
int MPI_Allreduce(const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
    calls++;
    return PMPI_Allreduce(a, b, n, t, o, c);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int in = 1, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return finish(out == 2 && calls);
}
