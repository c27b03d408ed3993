/* Preloaded into an MPI program, this makes its sends slow: MPI_Send and MPI_Isend of at least
 * STACKPROOF_SLOWSEND_MIN bytes busy-wait STACKPROOF_SLOWSEND_NS nanoseconds before they start.
 * It is the planted cause that a comparison must find, at the sizes it affects and only there.
 * All default to 0. Compile with the mpicc of the MPI: -shared -fPIC.
 */
#define _GNU_SOURCE 1

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static long long setting(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_for(int count, MPI_Datatype type)
{
    static long long wait_ns = -1;
    static long long smallest;
    int size = 0;
    if (wait_ns < 0) {
        smallest = setting("STACKPROOF_SLOWSEND_MIN");
        wait_ns = setting("STACKPROOF_SLOWSEND_NS");
    }
    PMPI_Type_size(type, &size);
    if (wait_ns == 0 || (long long)count * size < smallest) {
        return;
    }
    long long end = now_ns() + wait_ns;
    while (now_ns() < end) {
    }
}

int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    wait_for(count, type);
    return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    wait_for(count, type);
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}
