/* Collective benchmarks: one operation of each, and what it must deliver. Broadcast's root is rank
 * 0. Allreduce sums MPI_INT, as OSU 7 does, or MPI_FLOAT, as IMB does; the numbers are whole and
 * small, so that every sum can be checked to the last bit. How they are timed is in timing.c. */
#include "bench.h"

#include "memory.h"

#include <string.h>

enum { FILL_BYTES = 16 << 10 }; /* a multiple of an element */

static void operate_allreduce(struct job *job)
{
    int count = (int)(job->size / sizeof(int));
    MPI_Datatype type = job->options->timing == TIMING_IMB ? MPI_FLOAT : MPI_INT;
    MPI_Allreduce(job->send, job->recv, count, type, MPI_SUM, MPI_COMM_WORLD);
}

static void operate_alltoall(struct job *job)
{
    int size = (int)job->size;
    MPI_Alltoall(job->send, size, MPI_CHAR, job->recv, size, MPI_CHAR, MPI_COMM_WORLD);
}

static void operate_allgather(struct job *job)
{
    int size = (int)job->size;
    MPI_Allgather(job->send, size, MPI_CHAR, job->recv, size, MPI_CHAR, MPI_COMM_WORLD);
}

static void operate_bcast(struct job *job)
{
    char *data = job->rank == 0 ? job->send : job->recv;
    MPI_Bcast(data, (int)job->size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void operate_barrier(struct job *job)
{
    (void)job;
    MPI_Barrier(MPI_COMM_WORLD);
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

static struct block block_of(char *at, uint64_t seed, int source)
{
    struct block block = {.at = at, .seed = seed, .source = source, .message = 0};
    return block;
}

static void expect_pattern(const struct job *job, const struct block *block, size_t offset,
                           size_t bytes, char *to)
{
    (void)job;
    pattern_part(to, offset, bytes, block->seed);
}

static int received_of_all(const struct job *job)
{
    return job->ranks;
}

static void fill_alltoall(struct job *job, uint64_t iteration)
{
    for (int other = 0; other < job->ranks; other++) {
        pattern_fill(job->send + (size_t)other * job->size, job->size,
                     pattern_seed(job->rank, other, iteration, 0));
    }
}

static struct block block_alltoall(const struct job *job, int index, uint64_t iteration)
{
    return block_of(job->recv + (size_t)index * job->size,
                    pattern_seed(index, job->rank, iteration, 0), index);
}

/* What goes to all is seeded as if it went to rank 0. */

static void fill_to_all(struct job *job, uint64_t iteration)
{
    pattern_fill(job->send, job->size, pattern_seed(job->rank, 0, iteration, 0));
}

static struct block block_allgather(const struct job *job, int index, uint64_t iteration)
{
    return block_of(job->recv + (size_t)index * job->size, pattern_seed(index, 0, iteration, 0),
                    index);
}

static int received_by_leaves(const struct job *job)
{
    return job->rank == 0 ? 0 : 1;
}

static struct block block_bcast(const struct job *job, int index, uint64_t iteration)
{
    (void)index;
    return block_of(job->recv, pattern_seed(0, 0, iteration, 0), 0);
}

/* Element `index` of rank r is base(index) + r mod 8, with a base from 1 to 511: so its sum over
 * the ranks has a closed form, every rank counts in it, and a float holds it exactly for as many
 * as 32 000 ranks. */
static int reduce_base(uint64_t seed, size_t index)
{
    return 1 + (int)(pattern_mix(seed + index) % 511U);
}

static int reduce_sum(const struct job *job, uint64_t seed, size_t index)
{
    int rest = job->ranks % 8;
    return reduce_base(seed, index) * job->ranks + job->ranks / 8 * 28 + rest * (rest - 1) / 2;
}

static void put_element(const struct job *job, char *to, int value)
{
    if (job->options->timing == TIMING_IMB) {
        float number = (float)value;
        memcpy(to, &number, sizeof number);
    } else {
        memcpy(to, &value, sizeof value);
    }
}

static void fill_allreduce(struct job *job, uint64_t iteration)
{
    uint64_t seed = pattern_seed(0, 0, iteration, 0);
    for (size_t at = 0; at < job->size; at += FILL_BYTES) {
        char part[FILL_BYTES];
        size_t bytes = job->size - at < sizeof part ? job->size - at : sizeof part;
        for (size_t i = 0; i < bytes; i += sizeof(int)) {
            put_element(job, part + i, reduce_base(seed, (at + i) / sizeof(int)) + job->rank % 8);
        }
        memory_put(job->send + at, part, bytes);
    }
}

static int received_one(const struct job *job)
{
    (void)job;
    return 1;
}

static struct block block_allreduce(const struct job *job, int index, uint64_t iteration)
{
    (void)index;
    return block_of(job->recv, pattern_seed(0, 0, iteration, 0), -1);
}

static void expect_sum(const struct job *job, const struct block *block, size_t offset,
                       size_t bytes, char *to)
{
    size_t first = offset / sizeof(int);
    for (size_t i = 0; i < bytes / sizeof(int); i++) {
        put_element(job, to + i * sizeof(int), reduce_sum(job, block->seed, first + i));
    }
}

static void fill_nothing(struct job *job, uint64_t iteration)
{
    (void)job;
    (void)iteration;
}

static int received_nothing(const struct job *job)
{
    (void)job;
    return 0;
}

const struct benchmark bench_allreduce = {
    .name = "allreduce", .unit = "us", .sized = true, .collective = true,
    .smallest = sizeof(int), .granularity = sizeof(int), .operate = operate_allreduce,
    .value = value_mean, .counting = counting_all, .pair = pair_none, .need = need_one,
    .fill = fill_allreduce, .received = received_one, .block = block_allreduce,
    .expect = expect_sum,
};

const struct benchmark bench_alltoall = {
    .name = "alltoall", .unit = "us", .sized = true, .collective = true, .smallest = 1,
    .granularity = 1, .operate = operate_alltoall, .value = value_mean, .counting = counting_all,
    .pair = pair_none, .need = need_alltoall, .fill = fill_alltoall, .received = received_of_all,
    .block = block_alltoall, .expect = expect_pattern,
};

const struct benchmark bench_allgather = {
    .name = "allgather", .unit = "us", .sized = true, .collective = true, .smallest = 1,
    .granularity = 1, .operate = operate_allgather, .value = value_mean, .counting = counting_all,
    .pair = pair_none, .need = need_allgather, .fill = fill_to_all, .received = received_of_all,
    .block = block_allgather, .expect = expect_pattern,
};

const struct benchmark bench_bcast = {
    .name = "bcast", .unit = "us", .sized = true, .collective = true, .smallest = 1,
    .granularity = 1, .operate = operate_bcast, .value = value_mean, .counting = counting_all,
    .pair = pair_none, .need = need_one, .fill = fill_to_all, .received = received_by_leaves,
    .block = block_bcast, .expect = expect_pattern,
};

const struct benchmark bench_barrier = {
    .name = "barrier", .unit = "us", .sized = false, .collective = true, .granularity = 1,
    .operate = operate_barrier, .value = value_mean, .counting = counting_all, .pair = pair_none,
    .need = need_one, .fill = fill_nothing, .received = received_nothing,
};
