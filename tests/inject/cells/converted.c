/* Handles of Fortran and back, packed in external32.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    char room[64];
    MPI_Aint place = 0;
    double x = 2.5, y = 0;
    MPI_Comm world = MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD));
    MPI_Datatype type = MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE));
    MPI_Pack_external("external32", &x, 1, type, room, 64, &place);
    place = 0;
    MPI_Unpack_external("external32", room, 64, &place, &y, 1, type);
    return finish(world == MPI_COMM_WORLD && x == y);
}
