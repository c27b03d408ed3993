/* Large counts where they are, by dlsym.
   build: $CC -O1 -D_GNU_SOURCE -o $OUT $SRC $MPI */
#include "common.h"
#include <dlfcn.h>

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int in = 1, out = 0;
    int (*all)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op,
        MPI_Comm) = dlsym(RTLD_DEFAULT, "MPI_Allreduce_c");
    if (all) all(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return finish(out == 2);
}
