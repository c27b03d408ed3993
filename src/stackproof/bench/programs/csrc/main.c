/* stackproof-bench: MPI benchmarks that give evidence with their numbers.
 *
 * Rank 0 writes JSON lines on standard output (see emit.h): `start`, then one `series` or `skip`
 * for every benchmark and size (with `wrong` before it where received bytes were), then one `rank`
 * for every rank, then `end`. A run whose `end` is missing did not finish. All ranks collect facts
 * before and after the measurements, never during.
 */
#include "bench.h"

#include "disturb.h"
#include "emit.h"
#include "evidence.h"
#include "memory.h"
#include "tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Let all ranks have the same seed of what is sent, another one in each launch. */
static void agree_on_pattern(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t seed = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    seed = pattern_mix(seed ^ ((uint64_t)getpid() << 40));
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    pattern_begin(seed);
}

static void tell_start(const struct job *job)
{
    static const char *const checks[] = {"none", "sample", "all"};
    static const char *const timings[] = {"synchronised", "osu", "imb"};
    struct text members = {0};
    const struct options *options = job->options;
    tell_world(&members, job->ranks);
    text_key(&members, "options");
    text_raw(&members, "{", 1);
    text_key(&members, "benchmarks");
    text_raw(&members, "[", 1);
    for (int b = 0; b < options->benchmark_count; b++) {
        text_item(&members, benchmark_table[options->benchmarks[b]]->name);
    }
    text_raw(&members, "]", 1);
    text_integer(&members, "size_count", options->size_count);
    text_integer(&members, "samples", options->samples);
    text_real(&members, "seconds_per_size", options->seconds);
    text_integer(&members, "window", options->window);
    text_string(&members, "check", checks[options->check]);
    text_string(&members, "timing", timings[options->timing]);
    text_key(&members, "memory");
    text_raw(&members, "[", 1);
    text_item(&members, memory_names[options->memory[0]]);
    text_item(&members, memory_names[options->memory[1]]);
    text_raw(&members, "]", 1);
    text_unsigned(&members, "memory_limit", options->memory_limit);
    text_integer(&members, "expect_ranks", options->expect_ranks);
    text_raw(&members, "}", 1);
    tell_clock(&members);
    (void)emit("start", &members);
    text_free(&members);
}

/* Return whether the world is the one asked for; rank 0 tells when not. */
static bool world_is_right(const struct job *job)
{
    char message[160];
    int expected = job->options->expect_ranks;
    bool right = job->ranks >= 2 && (expected == 0 || expected == job->ranks);
    bool mixed = job->options->memory[0] != job->options->memory[1];
    if (right && mixed && job->ranks != 2) {
        right = false;
        if (job->rank == 0) {
            tell_error("world-size", "two kinds of memory are for two ranks");
        }
    } else if (!right && job->rank == 0) {
        (void)snprintf(message, sizeof message, "the number of ranks is %d; it must be %s%d",
                       job->ranks, expected == 0 ? "at least " : "", expected == 0 ? 2 : expected);
        tell_error("world-size", message);
    }
    return right;
}

/* Return whether every rank has the memory that it needs; rank 0 tells when not. */
static bool memory_is_good(const struct job *job)
{
    const char *reason = "";
    const char *message = "";
    bool good = memory_agree(&reason, &message);
    if (!good && job->rank == 0) {
        tell_error(reason, message);
    }
    return good;
}

static bool allocate(struct job *job)
{
    size_t send = 0;
    size_t recv = 0;
    measure_need(job, &send, &recv);
    job->requests = calloc(2 * (size_t)job->options->window, sizeof *job->requests);
    job->send = memory_allocate(send);
    job->recv = job->send == NULL ? NULL : memory_allocate(recv);
    int good = job->requests != NULL;
    int everywhere = 0;
    MPI_Allreduce(&good, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (everywhere == 0 && job->rank == 0) {
        tell_error("out-of-memory", "a rank has no memory for its requests");
    }
    return memory_is_good(job) && everywhere != 0;
}

static int run(struct job *job)
{
    struct evidence before;
    if (job->rank == 0) {
        emit_begin();
        tell_start(job);
    }
    if (!world_is_right(job)) {
        return EXIT_WORLD;
    }
    if (!memory_is_good(job)) {
        return EXIT_MEMORY;
    }
    agree_on_pattern();
    if (!allocate(job)) {
        return EXIT_MEMORY;
    }
    evidence_take(&before);
    disturb_begin();
    uint64_t errors = measure_all(job);
    tell_ranks(job, &before, NULL);
    evidence_free(&before);
    if (job->rank == 0) {
        tell_end(errors);
    }
    int outcome = !emit_ok() ? EXIT_FAULT : errors != 0 ? EXIT_VALIDATION : EXIT_DONE;
    MPI_Bcast(&outcome, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return outcome;
}

int main(int argc, char **argv)
{
    struct options options;
    struct job job;
    int outcome = options_parse(argc, argv, &options);
    if (outcome == EXIT_DONE) {
        memset(&job, 0, sizeof job);
        job.options = &options;
        /* Some MPIs look at MPI_Init for the GPU that a rank uses; which kind it uses, where there
         * are two, is known afterwards. */
        bool mixed = options.memory[0] != options.memory[1];
        memory_open(mixed ? MEMORY_HOST : options.memory[0]);
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
        MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
        if (mixed) {
            memory_open(options.memory[job.rank == 0 ? 0 : 1]);
        }
        outcome = run(&job);
        free(job.requests);
        memory_release(job.send);
        memory_release(job.recv);
        MPI_Finalize();
    }
    options_free(&options);
    return outcome < 0 ? EXIT_DONE : outcome;
}
