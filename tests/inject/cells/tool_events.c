/* Events and sources of MPI_T of MPI 4.0, after variables of MPI 3.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int provided, number = -1, sources = -1;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_num(&number);
    MPI_T_source_get_num(&sources);
    MPI_T_finalize();
    return finish(number >= 0 && sources >= 0);
}
