/* Four threads that send at once.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"
#include <pthread.h>
#define MPI_Init(a, b) MPI_Init_thread(a, b, MPI_THREAD_MULTIPLE, &given)
static int given;
static void *turn(void *tag) {
    int rank, got;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, (long)tag, &got, 1, MPI_INT, 1 - rank,
        (long)tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return 0;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int provided, rank, i;
    pthread_t threads[4];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Query_thread(&provided);
    if (provided == MPI_THREAD_MULTIPLE)
        for (i = 0; i < 4; i++) pthread_create(&threads[i], 0, turn, (void *)(long)i);
    for (i = 0; i < 4 && provided == MPI_THREAD_MULTIPLE; i++) pthread_join(threads[i], 0);
    return finish(1);
}
