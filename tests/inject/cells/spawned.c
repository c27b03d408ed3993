/* Another process, started from within.
   build: $CC -O1 -o $OUT $SRC $MPI
   set: I_MPI_FABRICS=shm:ofi */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm parent, between;
    int size = 0;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_spawn(words[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
        MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(between, &size);
    MPI_Barrier(between);
    return finish(size == 1);
}
