/* MPI_Info_create_env and MPI_Info_get_string of MPI 4.0.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Info info;
    int length = 10, found = 0;
    char value[10];
    MPI_Info_create_env(count, words, &info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_string(info, "key", &length, value, &found);
    return finish(found && value[0] == 'v');
}
