/* A tool that is linked into the program: it defines MPI_Init and calls PMPI_Init. */
#include "common.h"

static int calls;
int MPI_Init(int *count, char ***words) {
    calls++;
    return PMPI_Init(count, words);
}
int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(calls == 1);
}
