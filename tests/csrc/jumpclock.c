/* Preloaded into a program, this lets the monotonic clock of rank STACKPROOF_JUMP_RANK jump: at the
 * first MPI_Send after STACKPROOF_JUMP_BARRIER calls of MPI_Barrier, STACKPROOF_JUMP_NS
 * nanoseconds are added to all that follows. Compile with mpicc -shared -fPIC -ldl.
 */
#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static long long added;
static long barriers;

static long long number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

int MPI_Barrier(MPI_Comm comm)
{
    barriers++;
    return PMPI_Barrier(comm);
}

int MPI_Send(const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == number("STACKPROOF_JUMP_RANK") && barriers >= number("STACKPROOF_JUMP_BARRIER")) {
        added = number("STACKPROOF_JUMP_NS");
    }
    return PMPI_Send(at, count, type, to, tag, comm);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    int code = real(id, time);
    if (code != 0 || id != CLOCK_MONOTONIC) {
        return code;
    }
    long long now = (long long)time->tv_sec * 1000000000 + time->tv_nsec + added;
    time->tv_sec = (time_t)(now / 1000000000);
    time->tv_nsec = (long)(now % 1000000000);
    return code;
}
