/* The module of such a host. */
#include "common.h"

int start(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
