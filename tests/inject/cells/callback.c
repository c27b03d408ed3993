/* A reduction of the program that compares the handle it is given.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
static int right;
static void add(void *a, void *b, int *n, MPI_Datatype *type) {
    right = *type == MPI_INT;
    *(int *)b += *(int *)a;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int in = 1, out = 0;
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&in, &out, 1, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    return finish(out == 2 && right);
}
