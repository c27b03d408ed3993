/* The words of the program: options, a job (this rank's part in the run) and a benchmark. */
#ifndef STACKPROOF_BENCH_H
#define STACKPROOF_BENCH_H

#include "compat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define PROGRAM_NAME "stackproof-bench"
#define PROGRAM_VERSION "1.0"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAULT = 1,      /* out of memory, or the output could not be written */
    EXIT_USAGE = 2,      /* a bad option; told on standard error */
    EXIT_WORLD = 3,      /* the number of ranks is not the expected one, or one alone */
    EXIT_VALIDATION = 4, /* everything ran, and some received bytes were wrong */
};

enum { BENCHMARK_COUNT = 9 };

struct options {
    int benchmarks[BENCHMARK_COUNT]; /* indexes into benchmark_table, in the order asked for */
    int benchmark_count;
    size_t *sizes; /* bytes per message */
    int size_count;
    int samples;         /* timed samples per size */
    double seconds;      /* cap of the timed part of one size */
    int window;          /* non-blocking messages in flight */
    bool validate;       /* check every byte received */
    size_t memory_limit; /* bytes of message buffers per rank */
    int expect_ranks;    /* 0: any number from two */
};

/* With whom a rank exchanges messages in a point-to-point benchmark. */
struct pair {
    int peer; /* -1: this rank waits */
    bool sends;
    bool receives;
};

struct job {
    const struct options *options;
    int rank;
    int ranks;
    size_t size;      /* bytes of one message */
    int window;       /* messages in flight in this phase */
    size_t stride;    /* bytes between the slots of two messages; 0: all use one slot, as in OSU */
    struct pair pair; /* for the benchmark that runs now */
    char *send;
    char *recv;
    MPI_Request *requests; /* two windows */
};

/* Bytes compared and bytes found wrong. */
struct tally {
    uint64_t bytes;
    uint64_t errors;
};

struct benchmark {
    const char *name;
    const char *unit;
    bool sized;         /* has a message size */
    bool windowed;      /* keeps a window of messages in flight */
    bool collective;    /* every rank's time counts, and minimum and maximum are told too */
    size_t smallest;    /* smallest message that means something, bytes */
    size_t granularity; /* the size must be a multiple, bytes */

    /* Run `iterations` operations; return the seconds that this rank counts. */
    double (*run)(struct job *job, int iterations);
    /* Return the result in `unit` from the mean seconds over the ranks that count. */
    double (*value)(const struct job *job, int iterations, double seconds);
    /* Return how many ranks' seconds count (their sum is divided by it). */
    int (*counting)(const struct job *job);
    /* Return this rank's partner; unused by collectives. */
    struct pair (*pair)(const struct job *job);
    /* Tell the bytes of send and receive buffer; `slots` messages lie `stride` bytes apart. */
    void (*need)(const struct job *job, size_t size, size_t slots, size_t *send, size_t *recv);
    /* Put the pattern of `iteration` into what is sent, its complement into what is received. */
    void (*fill)(struct job *job, uint64_t iteration);
    /* Compare what was received with the pattern of `iteration`. */
    struct tally (*check)(const struct job *job, uint64_t iteration);
};

extern const struct benchmark *const benchmark_table[BENCHMARK_COUNT]; /* table.c */
extern const struct benchmark bench_latency, bench_bandwidth, bench_bibandwidth, bench_message_rate;
extern const struct benchmark bench_allreduce, bench_alltoall, bench_allgather, bench_bcast,
    bench_barrier;

/* Return seconds of a clock that never jumps. The same clock is used under every MPI, so that the
 * choice of MPI_Wtime's implementation is not part of what is compared. */
static inline double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* options.c: return EXIT_DONE to go on, another code to end with; -1 to end well (--help). */
int options_parse(int argc, char **argv, struct options *options);
void options_free(struct options *options);

/* pattern.c */
uint64_t pattern_seed(int source, int destination, uint64_t iteration, int message);
void pattern_fill(char *at, size_t bytes, uint64_t seed, bool complement);
uint64_t pattern_errors(const char *at, size_t bytes, uint64_t seed);

/* measure.c: run every benchmark at every size; return bytes found wrong. */
uint64_t measure_all(struct job *job);
/* Return the bytes of send and receive buffer for the largest case within the limit. */
void measure_need(const struct job *job, size_t *send, size_t *recv);

#endif
