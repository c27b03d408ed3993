/* The words of the program: options, a job (this rank's part in the run) and a benchmark. */
#ifndef STACKPROOF_BENCH_H
#define STACKPROOF_BENCH_H

#include "compat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef STACKPROOF_SOLVER
#define PROGRAM_NAME "stackproof-solver"
#else
#define PROGRAM_NAME "stackproof-bench"
#endif
#define PROGRAM_VERSION "2.1"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAULT = 1,      /* out of memory, or the output could not be written */
    EXIT_USAGE = 2,      /* a bad option; told on standard error */
    EXIT_WORLD = 3,      /* the number of ranks is not the expected one, or one alone */
    EXIT_VALIDATION = 4, /* everything ran, and some received bytes were wrong */
    EXIT_MEMORY = 5,     /* the memory asked for cannot be had, or the MPI cannot send from it */
};

enum { BENCHMARK_COUNT = 9 };

/* Which received bytes are compared with what was sent. */
enum check_level { CHECK_NONE, CHECK_SAMPLE, CHECK_ALL };

/* How collectives are timed: see docs/explanation/benchmark-program.md. */
enum timing { TIMING_SYNCHRONISED, TIMING_OSU, TIMING_IMB };

struct options {
    int benchmarks[BENCHMARK_COUNT]; /* indexes into benchmark_table, in the order asked for */
    int benchmark_count;
    size_t *sizes; /* bytes per message */
    int size_count;
    int samples;         /* timed samples per size */
    double seconds;      /* cap of the timed part of one size */
    int window;          /* non-blocking messages in flight */
    int check;           /* an enum check_level */
    int timing;          /* an enum timing */
    bool own_clocks;     /* take no two ranks' clocks for one */
    size_t memory_limit; /* bytes of message buffers per rank */
    int expect_ranks;    /* 0: any number from two */
    int memory[2];       /* enum memory_kind of rank 0, and of the others */
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

/* Bytes compared, bytes found wrong, and the first of these. */
struct tally {
    uint64_t bytes;
    uint64_t errors;
    uint64_t offset; /* within its message */
    int source;      /* the rank that sent it; -1 for a sum of all */
    int message;     /* which of a window */
    int round;       /* sample that it was found after, from 0; or see enum round */
    int expected;
    int seen;
};

/* Rounds that are no samples. */
enum { ROUND_EXCHANGE = -1 };

/* One received message: where it is, and what it must be. */
struct block {
    char *at;
    uint64_t seed;
    int source;
    int message;
};

struct benchmark {
    const char *name;
    const char *unit;
    bool sized;         /* has a message size */
    bool windowed;      /* keeps a window of messages in flight */
    bool collective;    /* every rank's time counts, and minimum and maximum are told too */
    size_t smallest;    /* smallest message that means something, bytes */
    size_t granularity; /* the size must be a multiple, bytes */

    /* Point-to-point: run `iterations` operations; return the seconds that this rank counts. */
    double (*run)(struct job *job, int iterations);
    /* Collectives: run one operation. */
    void (*operate)(struct job *job);
    /* Return the result in `unit` from the mean seconds over the ranks that count. */
    double (*value)(const struct job *job, int iterations, double seconds);
    /* Return how many ranks' seconds count (their sum is divided by it). */
    int (*counting)(const struct job *job);
    /* Return this rank's partner; unused by collectives. */
    struct pair (*pair)(const struct job *job);
    /* Tell the bytes of send and receive buffer; `slots` messages lie `stride` bytes apart. */
    void (*need)(const struct job *job, size_t size, size_t slots, size_t *send, size_t *recv);
    /* Put the pattern of `iteration` into what is sent. */
    void (*fill)(struct job *job, uint64_t iteration);
    /* Return how many messages this rank receives in one exchange, and tell the one at `index`. */
    int (*received)(const struct job *job);
    struct block (*block)(const struct job *job, int index, uint64_t iteration);
    /* Write what `bytes` bytes of a message from `offset` on (a multiple of 8) must be. */
    void (*expect)(const struct job *job, const struct block *block, size_t offset, size_t bytes,
                   char *to);
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

/* pattern.c: what is sent depends on `launch` too, so no launch can pass with another's bytes. */
void pattern_begin(uint64_t launch);
uint64_t pattern_mix(uint64_t x);
uint64_t pattern_seed(int source, int destination, uint64_t iteration, int message);
void pattern_fill(char *at, size_t bytes, uint64_t seed);
/* Write the bytes of a pattern from `offset` on, a multiple of 8. */
void pattern_part(char *to, size_t offset, size_t bytes, uint64_t seed);

/* check.c */
struct tally check_nothing_yet(void);
void check_merge(struct tally *into, const struct tally *more);
/* Put the complement of what is expected into all that is received. */
void check_poison(struct job *job, const struct benchmark *bench, uint64_t iteration);
/* Compare what the timed part received; parts of it are poisoned again for the next sample. */
struct tally check_sample(struct job *job, const struct benchmark *bench, int sample, bool last);
/* Exchange messages that differ from each other and compare them. */
struct tally check_exchange(struct job *job, const struct benchmark *bench);
/* Return in how many slots, how far apart, an exchange that is checked puts its messages. */
int check_window(const struct job *job, const struct benchmark *bench, size_t size);
size_t check_stride(size_t size);
/* Return the sums over the ranks; every rank calls it, rank 0 tells what was wrong. */
struct tally check_gather(const struct job *job, const struct benchmark *bench,
                          const struct tally *mine);

/* clocks.c: one time for all ranks, that of rank 0's clock. */
void clocks_begin(const struct job *job);
void clocks_end(const struct job *job);
void clocks_watch(void); /* around each sample: notice whether this rank's clock jumped */
void clocks_adjust(const struct job *job); /* every rank; costs nothing where they share a clock */
double clocks_common(double local);
double clocks_local(double common);
/* Return by how much this rank's idea of the common time was wrong at most so far, seconds. */
double clocks_error(void);

/* timing.c */
enum { TIMING_MOST = 4096 }; /* operations of a collective in one sample */
struct spread {
    double slowest; /* seconds of one operation, until the last rank is out of it */
    double mean;    /* mean over the ranks */
    double fastest;
    double skew;    /* seconds between the first rank's start and the last one's */
    int late;       /* operations that did not start together */
};
void timing_begin(void);
void timing_end(void);
/* Run operations of a collective; rank 0 is told how long they took (NULL: not wanted). */
void timing_run(struct job *job, const struct benchmark *bench, int iterations,
                struct spread *spread);

/* measure.c: run every benchmark at every size; return bytes found wrong. */
uint64_t measure_all(struct job *job);
/* Return the bytes of send and receive buffer for the largest case within the limit. */
void measure_need(const struct job *job, size_t *send, size_t *recv);

#endif
