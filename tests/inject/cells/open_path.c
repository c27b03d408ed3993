/* The MPI is opened by the whole path that it was built with.
   build: $CC -DNAME='"'$LIB'"' -o $OUT $SRC -ldl */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>
#include <stdlib.h>

#ifdef OPEN_MPI
#define WORLD ((MPI_Comm)dlsym(mpi, "ompi_mpi_comm_world"))
#else
#define WORLD MPI_COMM_WORLD
#endif

int main(int count, char **words) {
    void *mpi = NULL;
    mpi = dlopen(NAME, RTLD_NOW | RTLD_GLOBAL);
    int (*start)(int *, char ***) = mpi ? (int (*)(int *, char ***))dlsym(mpi, "MPI_Init") : NULL;
    int (*size)(MPI_Comm, int *) = mpi
        ? (int (*)(MPI_Comm, int *))dlsym(mpi, "MPI_Comm_size") : NULL;
    int (*rank)(MPI_Comm, int *) = mpi
        ? (int (*)(MPI_Comm, int *))dlsym(mpi, "MPI_Comm_rank") : NULL;
    int (*end)(void) = mpi ? (int (*)(void))dlsym(mpi, "MPI_Finalize") : NULL;
    if (!start || !size || !rank || !end) return 3;
    start(&count, &words);
    int ranks = 0, own = 1;
    size(WORLD, &ranks);
    rank(WORLD, &own);
    if (own == 0) printf("RESULT size=%d ok=1\n", ranks);
    end();
    return 0;
}
