/* An error handler of MPI 4.0 by way of an object on the heap.
   build: $CXX -O2 -o $OUT $SRC $MPI */
#include "common.h"
struct Options {
    MPI_Errhandler handler;
    explicit Options(MPI_Errhandler chosen) : handler(chosen) {}
};

__attribute__((noinline)) static Options *make(MPI_Errhandler chosen) { return new Options(chosen); }

__attribute__((noinline)) static int set(Options *from) {
    return MPI_Comm_set_errhandler(MPI_COMM_WORLD, from->handler);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(set(make(MPI_ERRORS_ABORT)) == MPI_SUCCESS);
}
