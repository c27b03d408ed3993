/* One time for all ranks, that of rank 0's clock, and whether clocks ran steadily.
 *
 * Ranks whose clocks are one (same boot, same time namespace) need nothing. Of the others, the
 * first rank of each clock asks a rank that knows the common time already, in rounds that double
 * the number of those who know (Hunold, Carpen-Amarie, "On the Impact of Synchronizing Clocks and
 * Processes on Benchmarking MPI Collectives", EuroMPI 2015; the shortest of several round trips
 * counts, as in Cristian's algorithm, Distributed Computing 3, 1989); the ranks that share its
 * clock take over what it found. The drift is the slope between the first answer and the last one,
 * once they are far enough apart.
 *
 * Before and after all that is timed every rank asks rank 0, also where clocks are one: the true
 * difference lies within half the shortest round trip of the one found (Cristian, as above), so
 * what it moved by beyond both bounds and any drift is a jump. And around every sample a rank holds
 * its clock against CLOCK_MONOTONIC_RAW, which nothing adjusts, between two readings of it. */
#include "bench.h"

#include "clocks.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
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
    double within; /* half the round trip of the last answer */
    double jump;   /* the largest change between two answers that nothing explains */
    bool known;
} model;

/* NTP changes the rate of a clock by 500 ppm at most and slews as much beside it (adjtimex(2)). */
static const double drift_most = 1e-3;

/* What rounding and two processors' counters may add, seconds. */
static const double clock_floor = 2e-6;

/* Readings with CLOCK_MONOTONIC_RAW between them: so close is close enough, and so many tries. */
static const double reading_close = 1e-6;
enum { READINGS = 8 };

/* A difference of two clocks, with the bound of its error and when it was found. */
struct difference {
    double seconds;
    double bound;
    double at;
};

static struct {
    struct difference raw;   /* of this rank's clock from CLOCK_MONOTONIC_RAW, at the last look */
    struct difference first; /* of this rank's clock from rank 0's, before anything is timed */
    double moved;            /* by how much that has changed since, at the end */
    double allowed;          /* how much of it measurement and drift explain */
    double jump;             /* the largest change of `raw` that nothing explains, with its sign */
    bool known;
} watch;

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

static double larger(double a, double b)
{
    return fabs(b) > fabs(a) ? b : a;
}

/* Return a change that is more than its measurement and a drift explain, else nothing. */
static double unexplained(const struct difference *from, const struct difference *to, double drift)
{
    double change = to->seconds - from->seconds;
    double allowed = from->bound + to->bound + drift * fabs(to->at - from->at) + clock_floor;
    return fabs(change) > allowed ? change : 0.0;
}

/* The kernel is asked itself: what is preloaded into a program may change the clock that times. */
static bool raw_seconds(double *seconds)
{
    struct timespec t;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &t) != 0) {
        return false;
    }
    *seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return true;
}

void clocks_watch(void)
{
    struct difference now = {0.0, -1.0, 0.0};
    for (int i = 0; i < READINGS && (now.bound < 0.0 || now.bound > reading_close); i++) {
        double raw = 0.0;
        double before = now_seconds();
        if (!raw_seconds(&raw)) {
            return;
        }
        double bound = (now_seconds() - before) / 2.0;
        if (bound >= 0.0 && (now.bound < 0.0 || bound < now.bound)) {
            now.bound = bound;
            now.at = before + bound;
            now.seconds = now.at - raw;
        }
    }
    if (now.bound < 0.0) {
        return;
    }
    if (watch.known) {
        watch.jump = larger(watch.jump, unexplained(&watch.raw, &now, drift_most));
    }
    watch.raw = now;
    watch.known = true;
}

/* Ask a rank for its time, some trips of which the shortest counts; return how far this clock is
 * before the answers. */
static struct difference ask(int whom, MPI_Comm among)
{
    struct difference found = {0.0, -1.0, 0.0};
    for (int i = 0; i < TRIPS; i++) {
        double theirs = 0.0;
        double sent = now_seconds();
        MPI_Send(&sent, 1, MPI_DOUBLE, whom, TAG_ASK, among);
        MPI_Recv(&theirs, 1, MPI_DOUBLE, whom, TAG_ANSWER, among, MPI_STATUS_IGNORE);
        double half = (now_seconds() - sent) / 2.0;
        if (half >= 0.0 && (found.bound < 0.0 || half < found.bound)) {
            found.bound = half;
            found.at = sent + half;
            found.seconds = found.at - theirs;
        }
    }
    return found;
}

static void answer(int who, MPI_Comm among)
{
    for (int i = 0; i < TRIPS; i++) {
        double now = 0.0;
        MPI_Recv(&now, 1, MPI_DOUBLE, who, TAG_ASK, among, MPI_STATUS_IGNORE);
        now = clocks_common(now_seconds());
        MPI_Send(&now, 1, MPI_DOUBLE, who, TAG_ANSWER, among);
    }
}

/* Return how far this rank's clock is before rank 0's, which all others ask in turn. */
static struct difference from_first_rank(const struct job *job)
{
    struct difference none = {0.0, 0.0, 0.0};
    if (job->rank != 0) {
        return ask(0, MPI_COMM_WORLD);
    }
    for (int rank = 1; rank < job->ranks; rank++) {
        answer(rank, MPI_COMM_WORLD);
    }
    return none;
}

void clocks_begin(const struct job *job)
{
    memset(&model, 0, sizeof model);
    memset(&watch, 0, sizeof watch);
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
    watch.first = from_first_rank(job);
    clocks_watch();
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
    double skew = fabs(watch.first.seconds);
    bool apart = model.shared && skew > watch.first.bound + clock_floor;
    return larger(larger(model.error, fabs(watch.jump)), apart ? skew : 0.0);
}

/* Take over what a rank answered; one that is not `first` knows the common time by asking itself,
 * so that its answers also change by what it learned. */
static void learn(const struct difference *found, bool first)
{
    double offset = -found->seconds;
    if (model.known) {
        struct difference before = {-model.offset, model.within, model.at};
        double predicted = model.offset + model.drift * (found->at - model.at);
        double wrong = fabs(offset - predicted);
        model.error = wrong > model.error ? wrong : model.error;
        double jump = first ? unexplained(&before, found, 2.0 * drift_most) : 0.0;
        model.jump = larger(model.jump, jump);
    } else {
        model.first_offset = offset;
        model.first_at = found->at;
    }
    model.error = found->bound > model.error ? found->bound : model.error;
    double span = found->at - model.first_at;
    model.drift = span > drift_span ? (offset - model.first_offset) / span : 0.0;
    model.offset = offset;
    model.at = found->at;
    model.within = found->bound;
    model.known = true;
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
                answer(rank + known, model.askers);
            } else if (rank >= known && rank < 2 * known) {
                struct difference found = ask(rank - known, model.askers);
                learn(&found, rank == known);
            }
        }
    }
    double found[5] = {model.offset, model.drift, model.at, model.error, model.jump};
    MPI_Bcast(found, 5, MPI_DOUBLE, 0, model.sharing);
    model.offset = found[0];
    model.drift = found[1];
    model.at = found[2];
    model.error = found[3];
    model.jump = found[4];
}

void clocks_end(const struct job *job)
{
    clocks_watch();
    /* The common time that rank 0 answers with is its own clock's. */
    struct difference last = from_first_rank(job);
    if (job->rank == 0) {
        return;
    }
    double drift = model.shared ? 0.0 : 2.0 * drift_most;
    watch.moved = last.seconds - watch.first.seconds;
    watch.allowed = last.bound + watch.first.bound + clock_floor +
                    drift * fabs(last.at - watch.first.at);
}

void clocks_describe(struct text *members)
{
    text_key(members, "clock");
    text_raw(members, "{", 1);
    text_boolean(members, "shared", model.shared);
    text_real(members, "skew_us", 1e6 * watch.first.seconds);
    text_real(members, "skew_bound_us", 1e6 * (watch.first.bound + clock_floor));
    text_real(members, "moved_us", 1e6 * watch.moved);
    text_real(members, "moved_bound_us", 1e6 * watch.allowed);
    text_real(members, "jump_us", 1e6 * larger(watch.jump, model.jump));
    text_raw(members, "}", 1);
}
