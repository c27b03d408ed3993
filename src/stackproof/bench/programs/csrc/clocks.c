/* One time for all ranks: that of rank 0's clock.
 *
 * Ranks whose clocks are one (same boot, same time namespace) need nothing. Of the others, the
 * first rank of each clock asks a rank that knows the common time already, in rounds that double
 * the number of those who know (Hunold, Carpen-Amarie, "On the Impact of Synchronizing Clocks and
 * Processes on Benchmarking MPI Collectives", EuroMPI 2015; the shortest of several round trips
 * counts, as in Cristian's algorithm, Distributed Computing 3, 1989); the ranks that share its
 * clock take over what it found. The drift is the slope between the first answer and the last one,
 * once they are far enough apart. */
#include "bench.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_ASK = 120, TAG_ANSWER = 121, TRIPS = 12, NAME = 256 };

/* Offsets are known to a few tenths of a microsecond: shorter spans say nothing about drift. */
static const double drift_span = 0.2;

static struct {
    bool shared; /* all clocks are one */
    MPI_Comm sharing;  /* the ranks with this rank's clock; its first rank asks */
    MPI_Comm askers; /* the first ranks of all clocks; MPI_COMM_NULL on others */
    double offset; /* common = local + offset + drift * (local - at) */
    double drift;
    double at;
    double first_offset;
    double first_at;
    double error;
    bool known;
} model;

static uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = text; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Return the same number on two ranks if CLOCK_MONOTONIC is one clock for both. */
static uint64_t clock_identity(void)
{
    char name[NAME] = "";
    char space[NAME] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL || fgets(name, sizeof name, file) == NULL) {
        (void)gethostname(name, sizeof name - 1);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    ssize_t length = readlink("/proc/self/ns/time", space, sizeof space - 1);
    space[length > 0 ? length : 0] = '\0'; /* none before Linux 5.6: one clock for all */
    return text_hash(name) ^ pattern_mix(text_hash(space));
}

void clocks_begin(const struct job *job)
{
    memset(&model, 0, sizeof model);
    model.sharing = MPI_COMM_NULL;
    model.askers = MPI_COMM_NULL;
    uint64_t mine = job->options->own_clocks ? (uint64_t)job->rank : clock_identity();
    uint64_t *all = calloc((size_t)job->ranks, sizeof *all);
    if (all == NULL) {
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    int first = job->rank;
    model.shared = true;
    for (int rank = job->ranks - 1; rank >= 0; rank--) {
        first = all[rank] == mine ? rank : first;
        model.shared = model.shared && all[rank] == all[0];
    }
    free(all);
    if (!model.shared) {
        MPI_Comm_split(MPI_COMM_WORLD, first, job->rank, &model.sharing);
        MPI_Comm_split(MPI_COMM_WORLD, first == job->rank ? 0 : MPI_UNDEFINED, job->rank,
                       &model.askers);
    }
}

double clocks_common(double local)
{
    return local + model.offset + model.drift * (local - model.at);
}

double clocks_local(double common)
{
    double near = common - model.offset;
    return near - model.drift * (near - model.at);
}

double clocks_error(void)
{
    return model.error;
}

static void answer(int who)
{
    for (int i = 0; i < TRIPS; i++) {
        double now = 0.0;
        MPI_Recv(&now, 1, MPI_DOUBLE, who, TAG_ASK, model.askers, MPI_STATUS_IGNORE);
        now = clocks_common(now_seconds());
        MPI_Send(&now, 1, MPI_DOUBLE, who, TAG_ANSWER, model.askers);
    }
}

static void learn(double at, double offset, double uncertainty)
{
    if (model.known) {
        double predicted = model.offset + model.drift * (at - model.at);
        double wrong = fabs(offset - predicted);
        model.error = wrong > model.error ? wrong : model.error;
    } else {
        model.first_offset = offset;
        model.first_at = at;
    }
    model.error = uncertainty > model.error ? uncertainty : model.error;
    double span = at - model.first_at;
    model.drift = span > drift_span ? (offset - model.first_offset) / span : 0.0;
    model.offset = offset;
    model.at = at;
    model.known = true;
}

static void ask(int whom)
{
    double shortest = -1.0;
    double offset = 0.0;
    double at = 0.0;
    for (int i = 0; i < TRIPS; i++) {
        double theirs = 0.0;
        double sent = now_seconds();
        MPI_Send(&sent, 1, MPI_DOUBLE, whom, TAG_ASK, model.askers);
        MPI_Recv(&theirs, 1, MPI_DOUBLE, whom, TAG_ANSWER, model.askers, MPI_STATUS_IGNORE);
        double back = now_seconds();
        if (shortest < 0.0 || back - sent < shortest) {
            shortest = back - sent;
            at = sent + shortest / 2.0;
            offset = theirs - at;
        }
    }
    learn(at, offset, shortest / 2.0);
}

void clocks_adjust(const struct job *job)
{
    (void)job;
    if (model.shared) {
        return;
    }
    if (model.askers != MPI_COMM_NULL) {
        int rank = 0;
        int count = 0;
        MPI_Comm_rank(model.askers, &rank);
        MPI_Comm_size(model.askers, &count);
        for (int known = 1; known < count; known *= 2) {
            if (rank < known && rank + known < count) {
                answer(rank + known);
            } else if (rank >= known && rank < 2 * known) {
                ask(rank - known);
            }
        }
    }
    double found[4] = {model.offset, model.drift, model.at, model.error};
    MPI_Bcast(found, 4, MPI_DOUBLE, 0, model.sharing);
    model.offset = found[0];
    model.drift = found[1];
    model.at = found[2];
    model.error = found[3];
}
