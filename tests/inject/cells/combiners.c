/* A combiner of MPI 4.1 that is only compared with what MPI says of a type.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int a, b, d, combiner;
    MPI_Type_get_envelope(MPI_DOUBLE, &a, &b, &d, &combiner);
    return finish(combiner != MPI_COMBINER_VALUE_INDEX && combiner == MPI_COMBINER_NAMED);
}
