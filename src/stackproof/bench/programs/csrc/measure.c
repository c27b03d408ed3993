/* One benchmark at one size: warm up, decide how much to measure, measure, validate, tell. */
#include "bench.h"

#include "disturb.h"
#include "emit.h"
#include "network.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARMUP_MOST = 1 << 14,     /* operations in one warm-up batch */
    ITERATIONS_MOST = 1000000, /* operations in one sample */
};

/* A rank that shares its processor may stand still for about so long; waiting it out costs less
 * than a result made of one stall. */
static const double stall_seconds = 0.25;

struct schedule {
    int warmup;     /* operations before the first sample */
    int iterations; /* operations in one sample */
    int samples;
};

/* What the samples of one size gave. */
struct series {
    double *seconds;  /* of this rank, for each sample; point-to-point only */
    double *values;   /* in the benchmark's unit; rank 0's, as all that follow */
    double *mean;     /* of collectives: the mean over the ranks */
    double *fastest;  /* the same: the fastest rank's, by the definitions of OSU and IMB */
    double *slowest;  /* the same: the slowest rank's */
    double skew;      /* mean over the samples, seconds */
    int late;         /* operations that did not start together */
    double clock_error;
    int samples;
    double check_seconds;
    struct disturbance disturbance;
    struct tally checked;
};

static void need_of(const struct job *job, const struct benchmark *bench, size_t size,
                    size_t *send, size_t *recv)
{
    bool many = job->options->check != CHECK_NONE && bench->windowed;
    size_t slots = many ? (size_t)check_window(job, bench, size) : 1;
    bench->need(job, many ? check_stride(size) : size, slots, send, recv);
}

/* Return why a case cannot be measured, NULL when it can. */
static const char *obstacle(const struct job *job, const struct benchmark *bench, size_t size)
{
    size_t send = 0;
    size_t recv = 0;
    if (bench->collective && bench->sized) {
        if (job->options->memory[0] != job->options->memory[1]) {
            return "mixed-memory";
        }
        if (memory_no_collectives()) {
            return "not-gpu-aware";
        }
    }
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

/* Return how many operations the next batch of the warm-up has, 0 when it is over. A first
 * operation says little: it may open a connection or lose its processor for a moment. So it is not
 * the last, unless a second would cost too much. A single one that took long may have lost its
 * processor too, and is asked again, four times at most and as long as all of them took less than
 * the cap. */
static int next_batch(double cap, int round, int batch, double elapsed, double spent)
{
    if (round == 0) {
        return elapsed >= 4.0 * cap && elapsed >= stall_seconds ? 0 : 1;
    }
    if (elapsed >= 0.1 * cap) {
        return batch == 1 && round < 4 && spent < cap ? 1 : 0;
    }
    return batch >= WARMUP_MOST ? 0 : 2 * batch;
}

/* Run batches of 1, 1, 2, 4, … operations until one takes a tenth of the cap, then let rank 0
 * derive the schedule from the fastest of them, and tell all ranks. The fastest, because a batch
 * that lost its processor would make the samples few and short. */
static struct schedule warm_up(struct job *job, const struct benchmark *bench)
{
    double cap = job->options->seconds;
    double fastest = 0.0;
    double spent = 0.0;         /* in all batches but the first */
    int plan[4] = {0, 1, 1, 0}; /* the next batch, iterations, samples, warm-up operations */
    int total = 0;
    int batch = 1;
    for (int round = 0;; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_seconds();
        if (bench->collective) {
            timing_run(job, bench, batch, NULL);
        } else {
            (void)bench->run(job, batch);
        }
        double elapsed = now_seconds() - start;
        /* A clock that jumped back says nothing of how fast a batch was. */
        double each = elapsed < 0.0 ? cap : (elapsed > 1e-9 ? elapsed : 1e-9) / batch;
        fastest = round == 0 || each < fastest ? each : fastest;
        spent += round == 0 ? 0.0 : elapsed;
        total += batch;
        if (job->rank == 0) {
            double fit = cap / fastest;
            double share = fit / job->options->samples;
            int most = bench->collective ? TIMING_MOST : ITERATIONS_MOST;
            int next = next_batch(cap, round, batch, elapsed, spent);
            plan[0] = next <= most ? next : 0;
            plan[1] = share < 1.0 ? 1 : share > most ? most : (int)share;
            plan[2] = share >= 1.0 ? job->options->samples : fit < 1.0 ? 1 : (int)fit;
            plan[3] = total;
        }
        MPI_Bcast(plan, 4, MPI_INT, 0, MPI_COMM_WORLD);
        if (plan[0] == 0) {
            struct schedule schedule = {plan[3], plan[1], plan[2]};
            return schedule;
        }
        batch = plan[0];
    }
}

/* Compare, outside of the timed part, what the sample left behind. */
static void check(struct job *job, const struct benchmark *bench, int sample, bool last,
                  struct series *series)
{
    if (job->options->check == CHECK_NONE) {
        return;
    }
    double start = now_seconds();
    struct tally found = check_sample(job, bench, sample, last);
    check_merge(&series->checked, &found);
    series->check_seconds += now_seconds() - start;
}

/* Take the samples. Rank 0 ends early when the machine has become much slower than it was during
 * the warm-up. */
static void take_samples(struct job *job, const struct benchmark *bench,
                         const struct schedule *schedule, struct series *series)
{
    double cap = job->options->seconds;
    double limit = 3.0 * cap > cap + stall_seconds ? 3.0 * cap : cap + stall_seconds;
    double start = now_seconds();
    int s = 0;
    for (; s < schedule->samples; s++) {
        int go = s == 0 || now_seconds() - start - series->check_seconds < limit;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (go == 0) {
            break;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        struct disturbance part;
        clocks_watch();
        disturb_start(&part);
        if (bench->collective) {
            struct spread spread;
            timing_run(job, bench, schedule->iterations, &spread);
            series->mean[s] = spread.mean;
            series->fastest[s] = spread.fastest;
            series->slowest[s] = spread.slowest;
            series->skew += spread.skew;
            series->late += spread.late;
        } else {
            series->seconds[s] = bench->run(job, schedule->iterations);
        }
        disturb_stop(&part);
        clocks_watch();
        for (int i = 0; i < DISTURB_COUNT; i++) {
            series->disturbance.values[i] += part.values[i];
        }
        check(job, bench, s, s + 1 == schedule->samples, series);
    }
    series->samples = s;
}

/* Turn seconds into values in the benchmark's unit; false when the clock saw none of them. */
static bool convert(struct job *job, const struct benchmark *bench, int iterations,
                    struct series *series)
{
    bool good = true;
    bool each = job->options->timing != TIMING_SYNCHRONISED;
    if (!bench->collective) {
        MPI_Reduce(series->seconds, series->values, series->samples, MPI_DOUBLE, MPI_SUM, 0,
                   MPI_COMM_WORLD);
    }
    for (int s = 0; job->rank == 0 && s < series->samples; s++) {
        if (bench->collective) {
            series->mean[s] *= 1e6;
            series->fastest[s] *= 1e6;
            series->slowest[s] *= 1e6;
            series->values[s] = each ? series->mean[s] : series->slowest[s];
            good = good && series->values[s] > 0.0;
        } else {
            double seconds = series->values[s] / bench->counting(job);
            good = good && seconds > 0.0;
            series->values[s] = bench->value(job, iterations, seconds);
        }
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

static void tell_series(const struct job *job, const struct benchmark *bench,
                        const struct schedule *schedule, const struct series *series)
{
    static const char *const timings[] = {"synchronised", "osu", "imb"};
    struct text members = {0};
    text_string(&members, "benchmark", bench->name);
    text_unsigned(&members, "size", job->size);
    text_string(&members, "unit", bench->unit);
    text_integer(&members, "iterations", schedule->iterations);
    text_integer(&members, "warmup", schedule->warmup);
    text_reals(&members, "values", series->values, series->samples);
    if (bench->collective) {
        text_string(&members, "timing", timings[job->options->timing]);
        text_reals(&members, "mean", series->mean, series->samples);
        if (job->options->timing == TIMING_SYNCHRONISED) {
            text_integer(&members, "late", series->late);
            text_real(&members, "skew_us", 1e6 * series->skew / series->samples);
            text_real(&members, "clock_error_us", 1e6 * series->clock_error);
        } else {
            text_reals(&members, "min", series->fastest, series->samples);
            text_reals(&members, "max", series->slowest, series->samples);
        }
    }
    if (job->options->check != CHECK_NONE) {
        text_unsigned(&members, "validated", series->checked.bytes);
        text_unsigned(&members, "errors", series->checked.errors);
        text_real(&members, "check_s", series->check_seconds);
    }
    disturb_describe_part(&series->disturbance, &members);
    (void)emit("series", &members);
    text_free(&members);
}

/* Keep of each number of a series the largest of all ranks, at rank 0. */
static void worst_over_ranks(struct series *series)
{
    double mine[DISTURB_COUNT + 2];
    double worst[DISTURB_COUNT + 2];
    for (int i = 0; i < DISTURB_COUNT; i++) {
        mine[i] = worst[i] = series->disturbance.values[i];
    }
    mine[DISTURB_COUNT] = worst[DISTURB_COUNT] = series->check_seconds;
    mine[DISTURB_COUNT + 1] = worst[DISTURB_COUNT + 1] = series->clock_error;
    MPI_Reduce(mine, worst, DISTURB_COUNT + 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < DISTURB_COUNT; i++) {
        series->disturbance.values[i] = worst[i];
    }
    series->check_seconds = worst[DISTURB_COUNT];
    series->clock_error = worst[DISTURB_COUNT + 1];
}

/* Measure one size with room for the samples in `series`; return bytes found wrong. */
static uint64_t measure_one(struct job *job, const struct benchmark *bench, struct series *series)
{
    job->window = job->options->window;
    job->stride = 0;
    memset(&series->disturbance, 0, sizeof series->disturbance);
    series->checked = check_nothing_yet();
    series->skew = series->check_seconds = 0.0;
    series->late = 0;
    bench->fill(job, 0);
    check_poison(job, bench, 0);
    struct schedule schedule = warm_up(job, bench);
    network_part_begins();
    take_samples(job, bench, &schedule, series);
    network_part_ends(bench->name, job->size);
    bool good = convert(job, bench, schedule.iterations, series);
    series->clock_error = clocks_error();
    if (job->options->check != CHECK_NONE) {
        double start = now_seconds();
        struct tally more = check_exchange(job, bench);
        check_merge(&series->checked, &more);
        series->checked = check_gather(job, bench, &series->checked);
        series->check_seconds += now_seconds() - start;
    }
    worst_over_ranks(series);
    if (job->rank == 0 && good) {
        tell_series(job, bench, &schedule, series);
    } else if (job->rank == 0) {
        tell_skip(bench, job->size, "clock-too-coarse");
    }
    return series->checked.errors;
}

uint64_t measure_all(struct job *job)
{
    uint64_t errors = 0;
    size_t count = (size_t)job->options->samples;
    double *block = calloc(5 * count, sizeof *block);
    if (block == NULL) {
        (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    struct series series = {
        .seconds = block,
        .values = block + count,
        .mean = block + 2 * count,
        .fastest = block + 3 * count,
        .slowest = block + 4 * count,
    };
    clocks_begin(job);
    timing_begin();
    for (int b = 0; b < job->options->benchmark_count; b++) {
        const struct benchmark *bench = benchmark_table[job->options->benchmarks[b]];
        job->pair = bench->pair(job);
        for (int s = 0; s < sizes_of(job->options, bench); s++) {
            job->size = size_at(job->options, bench, s);
            const char *why = obstacle(job, bench, job->size);
            if (why == NULL) {
                errors += measure_one(job, bench, &series);
            } else if (job->rank == 0) {
                tell_skip(bench, job->size, why);
            }
        }
    }
    timing_end();
    clocks_end(job);
    free(block);
    return errors;
}
