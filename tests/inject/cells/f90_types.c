/* Types by precision: MPI_Type_create_f90_real.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Datatype real;
    int size = 0;
    MPI_Type_create_f90_real(15, 307, &real);
    MPI_Type_size(real, &size);
    return finish(size == 8);
}
