/* Predefined handles as data of the library, copied into a program at a fixed address.
   build: $CC -O2 -no-pie -fno-pic -o $OUT $SRC $MPI */
#include "common.h"
static MPI_Datatype held[2];
static MPI_Datatype *pick(int count) {
    held[0] = MPI_INT;
    held[1] = MPI_DOUBLE;
    return &held[count % 2];
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int size = 0, a = 0, b = 0;
    double in = 1, out = 0;
    MPI_Type_size(*pick(count), &size);
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_SELF, &a);
    return finish(size == 8 && out == 1 && a != b + 100);
}
