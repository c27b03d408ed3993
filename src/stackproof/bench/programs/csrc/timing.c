/* How long a collective takes.
 *
 * Synchronised, the default: ranks agree on a moment of their common clock, wait for it, and run
 * one operation; its time goes from the last rank's start to the last rank's end. What brings them
 * together again are messages of this file's own, none of the MPI's collectives, and lies outside
 * of that time. An operation whose ranks did not start together counts only when a sample has no
 * other. As OSU and IMB define it: every rank times each operation by itself, a barrier of the MPI
 * follows, and the mean over the ranks counts. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_MEET = 110, KINDS = 4 };

/* Ranks started together when the last came in so long after the first, seconds. A rank that waits
 * for a moment sees it some tens of nanoseconds late. */
static const double together = 0.25e-6;

/* The time from the announcement of a start to the start: so many times what most announcements
 * take to reach the last rank, within bounds, seconds. */
static const double slack_factor = 3.0;
static const double slack_least = 1e-6;
static const double slack_most = 10e-3;

static struct {
    double *begin;
    double *end;
    double *told; /* when the announcement came */
    double *room; /* KINDS times as much, twice */
    double *sums;
    double slack; /* rank 0's */
} state;

static void *allocate(size_t count)
{
    double *block = calloc(count, sizeof *block);
    if (block == NULL) {
        (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    return block;
}

void timing_begin(void)
{
    state.begin = allocate(TIMING_MOST);
    state.end = allocate(TIMING_MOST);
    state.told = allocate(TIMING_MOST);
    state.room = allocate(2 * KINDS * (size_t)TIMING_MOST);
    state.sums = allocate(2 * (size_t)TIMING_MOST);
    state.slack = slack_least;
}

void timing_end(void)
{
    free(state.begin);
    free(state.end);
    free(state.told);
    free(state.room);
    free(state.sums);
}

/* Return the moment, in common time, at which all ranks start: up a binomial tree when they are
 * there, down it with the time. A rank that waits here is inside of the MPI, so that it goes on
 * with what others still need of it. */
static double meet(const struct job *job)
{
    double start = 0.0;
    int mask = 1;
    for (; mask < job->ranks; mask *= 2) {
        if ((job->rank & mask) != 0) {
            int parent = job->rank - mask;
            MPI_Send(&start, 1, MPI_DOUBLE, parent, TAG_MEET, MPI_COMM_WORLD);
            MPI_Recv(&start, 1, MPI_DOUBLE, parent, TAG_MEET, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        }
        if (job->rank + mask < job->ranks) {
            MPI_Recv(&start, 1, MPI_DOUBLE, job->rank + mask, TAG_MEET, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    if (job->rank == 0) {
        start = clocks_common(now_seconds()) + state.slack;
    }
    for (mask /= 2; mask > 0; mask /= 2) {
        if (job->rank + mask < job->ranks) {
            MPI_Send(&start, 1, MPI_DOUBLE, job->rank + mask, TAG_MEET, MPI_COMM_WORLD);
        }
    }
    return start;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Choose the next sample's slack from when, before or after the start, the last rank was told.
 * The median, so that a rank which lost its processor now and then does not lengthen all. */
static void adapt_slack(int count, double *told)
{
    qsort(told, (size_t)count, sizeof *told, ascending);
    double slack = slack_factor * (told[count / 2] + state.slack);
    state.slack = slack < slack_least ? slack_least : slack > slack_most ? slack_most : slack;
}

/* Sum up a sample's operations; called by rank 0 with `room` reduced over the ranks: latest ends,
 * latest starts, earliest starts (negative), and `sums`, the ranks' own times. */
static void sum_up(const struct job *job, int count, const double *room, const double *sums,
                   struct spread *spread)
{
    const double *ends = room;
    const double *latest = room + count;
    const double *earliest = room + 2 * (size_t)count;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        kept += latest[i] + earliest[i] <= together;
    }
    spread->late = count - kept;
    for (int i = 0; i < count; i++) {
        double apart = latest[i] + earliest[i];
        if (kept == 0 || apart <= together) {
            spread->slowest += ends[i] - latest[i];
            spread->mean += sums[i] / job->ranks;
            spread->skew += apart;
        }
    }
    int over = kept == 0 ? count : kept;
    spread->slowest /= over;
    spread->mean /= over;
    spread->skew /= over;
}

static void run_synchronised(struct job *job, const struct benchmark *bench, int count,
                             struct spread *spread)
{
    clocks_adjust(job);
    for (int i = 0; i < count; i++) {
        double start = meet(job);
        double begin = now_seconds();
        if (!(fabs(start - clocks_common(begin)) < 1.0)) {
            start = clocks_common(begin); /* what came is no time: wrong bytes */
        }
        double target = clocks_local(start);
        state.told[i] = clocks_common(begin) - start;
        while (begin < target) {
            begin = now_seconds();
        }
        bench->operate(job);
        double end = now_seconds();
        state.begin[i] = clocks_common(begin) - start;
        state.end[i] = clocks_common(end) - start;
    }
    double *mine = state.room;
    double *all = state.room + KINDS * (size_t)TIMING_MOST;
    for (int i = 0; i < count; i++) {
        mine[i] = state.end[i];
        mine[count + i] = state.begin[i];
        mine[2 * count + i] = -state.begin[i];
        mine[3 * count + i] = state.told[i];
        state.sums[i] = state.end[i] - state.begin[i];
    }
    MPI_Reduce(mine, all, KINDS * count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(state.sums, state.sums + TIMING_MOST, count, MPI_DOUBLE, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (job->rank == 0) {
        sum_up(job, count, all, state.sums + TIMING_MOST, spread);
        spread->fastest = spread->mean;
        adapt_slack(count, all + 3 * (size_t)count);
    }
}

/* Each rank's own mean, with a barrier after each operation outside of it; barriers themselves are
 * timed back to back. */
static void run_by_ranks(struct job *job, const struct benchmark *bench, int count,
                         struct spread *spread)
{
    double total = 0.0;
    double least = 0.0;
    double most = 0.0;
    double sum = 0.0;
    if (bench->sized) {
        for (int i = 0; i < count; i++) {
            double start = now_seconds();
            bench->operate(job);
            total += now_seconds() - start;
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else {
        double start = now_seconds();
        for (int i = 0; i < count; i++) {
            bench->operate(job);
        }
        total = now_seconds() - start;
    }
    total /= count;
    MPI_Reduce(&total, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&total, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&total, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    spread->slowest = most;
    spread->mean = sum / job->ranks;
    spread->fastest = least;
}

void timing_run(struct job *job, const struct benchmark *bench, int iterations,
                struct spread *spread)
{
    struct spread unwanted;
    struct spread *to = spread == NULL ? &unwanted : spread;
    struct spread nothing = {0.0, 0.0, 0.0, 0.0, 0};
    *to = nothing;
    if (job->options->timing == TIMING_SYNCHRONISED) {
        run_synchronised(job, bench, iterations, to);
    } else {
        run_by_ranks(job, bench, iterations, to);
    }
}
