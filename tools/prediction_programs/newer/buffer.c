/* A buffer that grows by itself, of MPI 4.1. */
#include "common.h"

int main(int count, char **words) {
    void *old = NULL;
    int size = 0;
    MPI_Init(&count, &words);
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    MPI_Buffer_detach(&old, &size);
    return finish(1);
}
