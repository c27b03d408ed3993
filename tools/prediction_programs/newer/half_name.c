/* The half number: its name, which MPICH knows from 5.0 on. */
#include "common.h"
#include <string.h>

int main(int count, char **words) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Init(&count, &words);
    MPI_Type_get_name(MPIX_C_FLOAT16, name, &length);
    return finish(strcmp(name, "MPIX_C_FLOAT16") == 0);
}
