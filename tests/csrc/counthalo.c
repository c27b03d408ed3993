/* Preloaded into an MPI solver, this counts what it sends of its halo (tag 200), and says at the
 * end on standard error, for each rank, how many messages by which call, and of the neighbour
 * collective how many took from so many nanoseconds to twice as many. With STACKPROOF_SKEW it
 * makes what an allgather of doubles gives larger by that fraction: wrong sums, equal everywhere.
 * With STACKPROOF_SLOW_TYPES a message of a derived type waits so many nanoseconds before it
 * starts. Compile with the mpicc of the MPI: -shared -fPIC.
 */
#define _GNU_SOURCE 1

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TAG = 200, BINS = 48 };

static long sends, starts, puts_made, neighbours;
static long bins[BINS];

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const char *slow = getenv("STACKPROOF_SLOW_TYPES");
    sends += tag == TAG;
    if (tag == TAG && type != MPI_DOUBLE && slow != NULL) {
        struct timespec wait = {.tv_nsec = strtol(slow, NULL, 10)};
        nanosleep(&wait, NULL);
    }
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Startall(int count, MPI_Request requests[])
{
    starts += count;
    return PMPI_Startall(count, requests);
}

int MPI_Put(const void *data, int count, MPI_Datatype type, int to, MPI_Aint at, int there,
            MPI_Datatype other, MPI_Win window)
{
    puts_made++;
    return PMPI_Put(data, count, type, to, at, there, other, window);
}

int MPI_Neighbor_alltoallv(const void *data, const int counts[], const int at[], MPI_Datatype type,
                           void *to, const int there[], const int where[], MPI_Datatype other,
                           MPI_Comm comm)
{
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int code = PMPI_Neighbor_alltoallv(data, counts, at, type, to, there, where, other, comm);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long took = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
    int bin = 0;
    while (bin < BINS - 1 && took >> (bin + 1) > 0) {
        bin++;
    }
    bins[bin]++;
    neighbours++;
    return code;
}

int MPI_Allgather(const void *data, int count, MPI_Datatype type, void *to, int there,
                  MPI_Datatype other, MPI_Comm comm)
{
    int code = PMPI_Allgather(data, count, type, to, there, other, comm);
    const char *skew = getenv("STACKPROOF_SKEW");
    int ranks = 0;
    PMPI_Comm_size(comm, &ranks);
    for (int i = 0; skew != NULL && type == MPI_DOUBLE && i < ranks * there; i++) {
        ((double *)to)[i] *= 1.0 + strtod(skew, NULL) * (i == 0 ? 1 : 2);
    }
    return code;
}

int MPI_Finalize(void)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char line[1024];
    int used = snprintf(line, sizeof line, "counted %d isend=%ld start=%ld put=%ld neighbour=%ld",
                        rank, sends, starts, puts_made, neighbours);
    for (int bin = 0; bin < BINS; bin++) {
        if (bins[bin] > 0) {
            used += snprintf(line + used, sizeof line - (size_t)used, " %ld:%ld", 1L << bin,
                             bins[bin]);
        }
    }
    (void)fprintf(stderr, "%s\n", line);
    return PMPI_Finalize();
}
