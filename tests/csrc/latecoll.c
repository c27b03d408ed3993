/* Preloaded into an MPI program, this makes one rank (STACKPROOF_LATE_RANK, 1 unless set) late on
 * its way out of one collective: STACKPROOF_LATE_IN is `barrier` or `bcast`, the wait is
 * STACKPROOF_LATE_NS nanoseconds. A slow barrier must not show in another collective, and a
 * straggler must show whole. Compile with the mpicc of the MPI: -shared -fPIC.
 */
#define _GNU_SOURCE 1

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void be_late(const char *where)
{
    const char *in = getenv("STACKPROOF_LATE_IN");
    const char *text = getenv("STACKPROOF_LATE_NS");
    const char *who = getenv("STACKPROOF_LATE_RANK");
    int rank = 0;
    if (in == NULL || text == NULL || strcmp(in, where) != 0) {
        return;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != (who == NULL ? 1 : atoi(who))) {
        return;
    }
    long long end = now_ns() + strtoll(text, NULL, 10);
    while (now_ns() < end) {
    }
}

int MPI_Barrier(MPI_Comm comm)
{
    int code = PMPI_Barrier(comm);
    be_late("barrier");
    return code;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int code = PMPI_Bcast(data, count, type, root, comm);
    be_late("bcast");
    return code;
}
