/* One benchmark at one size: warm up, decide how much to measure, measure, validate, tell. */
#include "bench.h"

#include "emit.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    VALIDATION_ROUNDS = 2,
    WARMUP_MOST = 1 << 14,     /* operations in one warm-up batch */
    ITERATIONS_MOST = 1000000, /* operations in one sample */
};

/* Distinct slots of a validation exchange take at most this much, bytes. */
static const size_t validation_bytes = (size_t)16 << 20;

/* Slots begin at multiples of a cache line, so that no two messages share one. */
static const size_t slot_alignment = 64;

/* A rank that shares its processor may stand still for about so long; waiting it out costs less
 * than a result made of one stall. */
static const double stall_seconds = 0.25;

struct schedule {
    int warmup;     /* operations before the first sample */
    int iterations; /* operations in one sample */
    int samples;
};

static size_t validation_stride(size_t size)
{
    return (size + slot_alignment - 1) / slot_alignment * slot_alignment;
}

static int validation_window(const struct job *job, const struct benchmark *bench, size_t size)
{
    if (!bench->windowed || size == 0) {
        return 1;
    }
    size_t slots = validation_bytes / validation_stride(size);
    size_t window = (size_t)job->options->window;
    return (int)(slots < 1 ? 1 : slots > window ? window : slots);
}

static void need_of(const struct job *job, const struct benchmark *bench, size_t size,
                    size_t *send, size_t *recv)
{
    bool many = job->options->validate && bench->windowed;
    size_t slots = many ? (size_t)validation_window(job, bench, size) : 1;
    bench->need(job, many ? validation_stride(size) : size, slots, send, recv);
}

/* Return why a case cannot be measured, NULL when it can. */
static const char *obstacle(const struct job *job, const struct benchmark *bench, size_t size)
{
    size_t send = 0;
    size_t recv = 0;
    if (size < bench->smallest) {
        return "too-small";
    }
    if (size % bench->granularity != 0) {
        return "granularity";
    }
    need_of(job, bench, size, &send, &recv);
    return send + recv > job->options->memory_limit ? "memory-limit" : NULL;
}

static int sizes_of(const struct options *options, const struct benchmark *bench)
{
    return bench->sized ? options->size_count : 1;
}

static size_t size_at(const struct options *options, const struct benchmark *bench, int index)
{
    return bench->sized ? options->sizes[index] : 0;
}

void measure_need(const struct job *job, size_t *send, size_t *recv)
{
    *send = 1;
    *recv = 1;
    for (int b = 0; b < job->options->benchmark_count; b++) {
        const struct benchmark *bench = benchmark_table[job->options->benchmarks[b]];
        for (int s = 0; s < sizes_of(job->options, bench); s++) {
            size_t size = size_at(job->options, bench, s);
            size_t one_send = 0;
            size_t one_recv = 0;
            if (obstacle(job, bench, size) != NULL) {
                continue;
            }
            need_of(job, bench, size, &one_send, &one_recv);
            *send = one_send > *send ? one_send : *send;
            *recv = one_recv > *recv ? one_recv : *recv;
        }
    }
}

/* Return whether the warm-up is over. A first operation says little: it may open a connection or
 * lose its processor for a moment. So it is not the last, unless a second would cost too much. */
static bool warm_enough(double cap, int round, int batch, double elapsed)
{
    if (round == 0) {
        return elapsed >= 4.0 * cap && elapsed >= stall_seconds;
    }
    return elapsed >= 0.1 * cap || batch >= WARMUP_MOST;
}

/* Run batches of 1, 1, 2, 4, … operations until one takes a tenth of the cap, then let rank 0
 * derive the schedule from the fastest of them, and tell all ranks. The fastest, because a batch
 * that lost its processor would make the samples few and short. */
static struct schedule warm_up(struct job *job, const struct benchmark *bench)
{
    double cap = job->options->seconds;
    double fastest = 0.0;
    int plan[4] = {0, 1, 1, 0}; /* go on?, iterations, samples, warm-up operations */
    int total = 0;
    int batch = 1;
    for (int round = 0;; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_seconds();
        (void)bench->run(job, batch);
        double elapsed = now_seconds() - start;
        double each = (elapsed > 1e-9 ? elapsed : 1e-9) / batch;
        fastest = round == 0 || each < fastest ? each : fastest;
        total += batch;
        if (job->rank == 0) {
            double fit = cap / fastest;
            double share = fit / job->options->samples;
            plan[0] = !warm_enough(cap, round, batch, elapsed);
            plan[1] = share < 1.0 ? 1 : share > ITERATIONS_MOST ? ITERATIONS_MOST : (int)share;
            plan[2] = share >= 1.0 ? job->options->samples : fit < 1.0 ? 1 : (int)fit;
            plan[3] = total;
        }
        MPI_Bcast(plan, 4, MPI_INT, 0, MPI_COMM_WORLD);
        if (plan[0] == 0) {
            struct schedule schedule = {plan[3], plan[1], plan[2]};
            return schedule;
        }
        batch = round == 0 ? 1 : 2 * batch;
    }
}

/* Take the samples; the seconds that this rank counts go to `seconds`. Return how many were taken:
 * rank 0 ends early when the machine has become much slower than it was during the warm-up. */
static int take_samples(struct job *job, const struct benchmark *bench,
                        const struct schedule *schedule, double *seconds)
{
    double cap = job->options->seconds;
    double limit = 3.0 * cap > cap + stall_seconds ? 3.0 * cap : cap + stall_seconds;
    double start = now_seconds();
    for (int s = 0; s < schedule->samples; s++) {
        int go = s == 0 || now_seconds() - start < limit;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (go == 0) {
            return s;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        seconds[s] = bench->run(job, schedule->iterations);
    }
    return schedule->samples;
}

/* Exchange messages in the pattern that was timed, but with a slot of its own for every message of
 * a window, so that every byte of every message can be checked. */
static struct tally validate(struct job *job, const struct benchmark *bench)
{
    struct tally tally = {0, 0};
    job->window = validation_window(job, bench, job->size);
    job->stride = bench->windowed ? validation_stride(job->size) : 0;
    for (uint64_t round = 1; round <= VALIDATION_ROUNDS; round++) {
        bench->fill(job, round);
        MPI_Barrier(MPI_COMM_WORLD);
        (void)bench->run(job, 1);
        struct tally found = bench->check(job, round);
        tally.bytes += found.bytes;
        tally.errors += found.errors;
    }
    return tally;
}

/* Combine the ranks' seconds into values in the benchmark's unit; false when the clock saw none. */
static bool combine(const struct job *job, const struct benchmark *bench, int iterations, int count,
                    MPI_Op operation, const double *seconds, double *values)
{
    MPI_Reduce(seconds, values, count, MPI_DOUBLE, operation, 0, MPI_COMM_WORLD);
    bool good = true;
    for (int s = 0; job->rank == 0 && s < count; s++) {
        double mean = operation == MPI_SUM ? values[s] / bench->counting(job) : values[s];
        good = good && mean > 0.0;
        values[s] = bench->value(job, iterations, mean);
    }
    return good;
}

static void tell_skip(const struct benchmark *bench, size_t size, const char *why)
{
    struct text members = {0};
    text_string(&members, "benchmark", bench->name);
    text_unsigned(&members, "size", size);
    text_string(&members, "reason", why);
    (void)emit("skip", &members);
    text_free(&members);
}

static struct tally sum_over_ranks(struct tally mine)
{
    uint64_t local[2] = {mine.bytes, mine.errors};
    uint64_t global[2] = {0, 0};
    MPI_Allreduce(local, global, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    struct tally tally = {global[0], global[1]};
    return tally;
}

static void tell_series(const struct job *job, const struct benchmark *bench,
                        const struct schedule *schedule, int samples, double *const values[3],
                        const struct tally *checked)
{
    struct text members = {0};
    text_string(&members, "benchmark", bench->name);
    text_unsigned(&members, "size", job->size);
    text_string(&members, "unit", bench->unit);
    text_integer(&members, "iterations", schedule->iterations);
    text_integer(&members, "warmup", schedule->warmup);
    text_reals(&members, "values", values[0], samples);
    if (bench->collective) {
        text_reals(&members, "min", values[1], samples);
        text_reals(&members, "max", values[2], samples);
    }
    if (checked != NULL) {
        text_unsigned(&members, "validated", checked->bytes);
        text_unsigned(&members, "errors", checked->errors);
    }
    (void)emit("series", &members);
    text_free(&members);
}

/* Measure one size with room for the samples in `room`; return bytes found wrong. */
static uint64_t measure_one(struct job *job, const struct benchmark *bench, double *const room[4])
{
    job->window = job->options->window;
    job->stride = 0;
    bench->fill(job, 0);
    struct schedule schedule = warm_up(job, bench);
    int samples = take_samples(job, bench, &schedule, room[3]);
    struct tally checked = {0, 0};
    if (job->options->validate) {
        checked = bench->check(job, 0); /* what the timed part left in the buffers */
    }
    bool good = combine(job, bench, schedule.iterations, samples, MPI_SUM, room[3], room[0]);
    if (bench->collective) {
        (void)combine(job, bench, schedule.iterations, samples, MPI_MIN, room[3], room[1]);
        (void)combine(job, bench, schedule.iterations, samples, MPI_MAX, room[3], room[2]);
    }
    if (job->options->validate) {
        struct tally more = validate(job, bench);
        checked.bytes += more.bytes;
        checked.errors += more.errors;
        checked = sum_over_ranks(checked);
    }
    if (job->rank == 0 && good) {
        tell_series(job, bench, &schedule, samples, room,
                    job->options->validate ? &checked : NULL);
    } else if (job->rank == 0) {
        tell_skip(bench, job->size, "clock-too-coarse");
    }
    return checked.errors;
}

uint64_t measure_all(struct job *job)
{
    uint64_t errors = 0;
    size_t count = (size_t)job->options->samples;
    double *block = calloc(4 * count, sizeof *block);
    if (block == NULL) {
        (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    double *const room[4] = {block, block + count, block + 2 * count, block + 3 * count};
    for (int b = 0; b < job->options->benchmark_count; b++) {
        const struct benchmark *bench = benchmark_table[job->options->benchmarks[b]];
        job->pair = bench->pair(job);
        for (int s = 0; s < sizes_of(job->options, bench); s++) {
            job->size = size_at(job->options, bench, s);
            const char *why = obstacle(job, bench, job->size);
            if (why == NULL) {
                errors += measure_one(job, bench, room);
            } else if (job->rank == 0) {
                tell_skip(bench, job->size, why);
            }
        }
    }
    free(block);
    return errors;
}
