/* Collective benchmarks, with the semantics of the OSU micro-benchmarks: each operation is timed
 * by itself on every rank, a barrier follows it outside the timed part, and the result is the mean
 * over iterations and ranks. Barriers are timed back to back. Broadcast's root is rank 0. Allreduce
 * sums MPI_INT, as OSU 7 does, because sums of whole numbers can be checked exactly. */
#include "bench.h"

#include <string.h>

static double run_allreduce(struct job *job, int iterations)
{
    int count = (int)(job->size / sizeof(int));
    double total = 0.0;
    for (int i = 0; i < iterations; i++) {
        double start = now_seconds();
        MPI_Allreduce(job->send, job->recv, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        total += now_seconds() - start;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return total;
}

static double run_alltoall(struct job *job, int iterations)
{
    int size = (int)job->size;
    double total = 0.0;
    for (int i = 0; i < iterations; i++) {
        double start = now_seconds();
        MPI_Alltoall(job->send, size, MPI_CHAR, job->recv, size, MPI_CHAR, MPI_COMM_WORLD);
        total += now_seconds() - start;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return total;
}

static double run_allgather(struct job *job, int iterations)
{
    int size = (int)job->size;
    double total = 0.0;
    for (int i = 0; i < iterations; i++) {
        double start = now_seconds();
        MPI_Allgather(job->send, size, MPI_CHAR, job->recv, size, MPI_CHAR, MPI_COMM_WORLD);
        total += now_seconds() - start;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return total;
}

static double run_bcast(struct job *job, int iterations)
{
    int size = (int)job->size;
    char *data = job->rank == 0 ? job->send : job->recv;
    double total = 0.0;
    for (int i = 0; i < iterations; i++) {
        double start = now_seconds();
        MPI_Bcast(data, size, MPI_CHAR, 0, MPI_COMM_WORLD);
        total += now_seconds() - start;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return total;
}

static double run_barrier(struct job *job, int iterations)
{
    (void)job;
    double total = 0.0;
    for (int i = 0; i < iterations; i++) {
        double start = now_seconds();
        MPI_Barrier(MPI_COMM_WORLD);
        total += now_seconds() - start;
    }
    return total;
}

static int counting_all(const struct job *job)
{
    return job->ranks;
}

static double value_mean(const struct job *job, int iterations, double seconds)
{
    (void)job;
    return 1e6 * seconds / iterations;
}

static struct pair pair_none(const struct job *job)
{
    (void)job;
    struct pair pair = {.peer = -1, .sends = false, .receives = false};
    return pair;
}

/* The buffers of the collectives hold one operation's data, whatever `slots` is. */

static void need_one(const struct job *job, size_t size, size_t slots, size_t *send, size_t *recv)
{
    (void)job;
    (void)slots;
    *send = size;
    *recv = size;
}

static void need_alltoall(const struct job *job, size_t size, size_t slots, size_t *send,
                          size_t *recv)
{
    (void)slots;
    *send = size * (size_t)job->ranks;
    *recv = size * (size_t)job->ranks;
}

static void need_allgather(const struct job *job, size_t size, size_t slots, size_t *send,
                           size_t *recv)
{
    (void)slots;
    *send = size;
    *recv = size * (size_t)job->ranks;
}

static void fill_alltoall(struct job *job, uint64_t iteration)
{
    for (int other = 0; other < job->ranks; other++) {
        size_t at = (size_t)other * job->size;
        pattern_fill(job->send + at, job->size, pattern_seed(job->rank, other, iteration, 0),
                     false);
        pattern_fill(job->recv + at, job->size, pattern_seed(other, job->rank, iteration, 0), true);
    }
}

static struct tally check_alltoall(const struct job *job, uint64_t iteration)
{
    struct tally tally = {0, 0};
    for (int other = 0; other < job->ranks; other++) {
        tally.bytes += job->size;
        tally.errors += pattern_errors(job->recv + (size_t)other * job->size, job->size,
                                       pattern_seed(other, job->rank, iteration, 0));
    }
    return tally;
}

static void fill_allgather(struct job *job, uint64_t iteration)
{
    pattern_fill(job->send, job->size, pattern_seed(job->rank, 0, iteration, 0), false);
    for (int other = 0; other < job->ranks; other++) {
        pattern_fill(job->recv + (size_t)other * job->size, job->size,
                     pattern_seed(other, 0, iteration, 0), true);
    }
}

static struct tally check_allgather(const struct job *job, uint64_t iteration)
{
    struct tally tally = {0, 0};
    for (int other = 0; other < job->ranks; other++) {
        tally.bytes += job->size;
        tally.errors += pattern_errors(job->recv + (size_t)other * job->size, job->size,
                                       pattern_seed(other, 0, iteration, 0));
    }
    return tally;
}

static void fill_bcast(struct job *job, uint64_t iteration)
{
    uint64_t seed = pattern_seed(0, 0, iteration, 0);
    if (job->rank == 0) {
        pattern_fill(job->send, job->size, seed, false);
    } else {
        pattern_fill(job->recv, job->size, seed, true);
    }
}

static struct tally check_bcast(const struct job *job, uint64_t iteration)
{
    struct tally tally = {0, 0};
    if (job->rank != 0) {
        tally.bytes = job->size;
        tally.errors = pattern_errors(job->recv, job->size, pattern_seed(0, 0, iteration, 0));
    }
    return tally;
}

/* Element `index` of rank r is base(index) + 3 r with a base below 2^12, so that its sum over the
 * ranks has a closed form and fits an int for 30 000 ranks. */
static int reduce_base(uint64_t iteration, size_t index)
{
    return (int)(pattern_seed(0, 0, iteration, (int)(index & 0xffff)) + (index >> 16)) & 0xfff;
}

static int reduce_sum(const struct job *job, uint64_t iteration, size_t index)
{
    return reduce_base(iteration, index) * job->ranks + 3 * (job->ranks * (job->ranks - 1) / 2);
}

static void fill_allreduce(struct job *job, uint64_t iteration)
{
    for (size_t i = 0; i < job->size / sizeof(int); i++) {
        int value = reduce_base(iteration, i) + 3 * job->rank;
        int poison = -1 - reduce_sum(job, iteration, i);
        memcpy(job->send + i * sizeof value, &value, sizeof value);
        memcpy(job->recv + i * sizeof poison, &poison, sizeof poison);
    }
}

static struct tally check_allreduce(const struct job *job, uint64_t iteration)
{
    struct tally tally = {.bytes = job->size, .errors = 0};
    for (size_t i = 0; i < job->size / sizeof(int); i++) {
        int expected = reduce_sum(job, iteration, i);
        const char *at = job->recv + i * sizeof expected;
        char wanted[sizeof expected];
        memcpy(wanted, &expected, sizeof expected);
        for (size_t b = 0; b < sizeof expected; b++) {
            tally.errors += at[b] != wanted[b];
        }
    }
    return tally;
}

static void fill_nothing(struct job *job, uint64_t iteration)
{
    (void)job;
    (void)iteration;
}

static struct tally check_nothing(const struct job *job, uint64_t iteration)
{
    (void)job;
    (void)iteration;
    struct tally tally = {0, 0};
    return tally;
}

const struct benchmark bench_allreduce = {
    .name = "allreduce", .unit = "us", .sized = true, .collective = true,
    .smallest = sizeof(int), .granularity = sizeof(int), .run = run_allreduce, .value = value_mean,
    .counting = counting_all, .pair = pair_none, .need = need_one, .fill = fill_allreduce,
    .check = check_allreduce,
};

const struct benchmark bench_alltoall = {
    .name = "alltoall", .unit = "us", .sized = true, .collective = true, .smallest = 1,
    .granularity = 1, .run = run_alltoall, .value = value_mean, .counting = counting_all,
    .pair = pair_none, .need = need_alltoall, .fill = fill_alltoall, .check = check_alltoall,
};

const struct benchmark bench_allgather = {
    .name = "allgather", .unit = "us", .sized = true, .collective = true, .smallest = 1,
    .granularity = 1, .run = run_allgather, .value = value_mean, .counting = counting_all,
    .pair = pair_none, .need = need_allgather, .fill = fill_allgather, .check = check_allgather,
};

const struct benchmark bench_bcast = {
    .name = "bcast", .unit = "us", .sized = true, .collective = true, .smallest = 1,
    .granularity = 1, .run = run_bcast, .value = value_mean, .counting = counting_all,
    .pair = pair_none, .need = need_one, .fill = fill_bcast, .check = check_bcast,
};

const struct benchmark bench_barrier = {
    .name = "barrier", .unit = "us", .sized = false, .collective = true, .granularity = 1,
    .run = run_barrier, .value = value_mean, .counting = counting_all, .pair = pair_none,
    .need = need_one, .fill = fill_nothing, .check = check_nothing,
};
