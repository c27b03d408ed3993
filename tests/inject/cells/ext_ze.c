/* Asks for Level Zero and for HIP, which few have.
   build: $CC -O1 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int a = MPIX_Query_ze_support(), b = MPIX_Query_hip_support();
    return finish(a + b >= 0);
}
