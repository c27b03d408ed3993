/* Functions of MPI 4.1: value index, status fields, removal of error classes.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int class;
    MPI_Datatype pair;
    MPI_Status status;
    MPI_Add_error_class(&class);
    MPI_Remove_error_class(class);
    MPI_Status_set_source(&status, 3);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair);
    return finish(pair == MPI_DOUBLE_INT && status.MPI_SOURCE == 3);
}
