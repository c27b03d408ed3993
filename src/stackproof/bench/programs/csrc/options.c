/* The command line. Bad options are told on standard error before MPI starts, so that they cost
 * nothing and are never mixed with results. */
#include "bench.h"

#include "memory.h"
#include "parse.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 1024, WINDOW_MAX = 1 << 16, SAMPLES_MAX = 100000 };

static const char usage[] =
    "usage: mpiexec -n RANKS " PROGRAM_NAME " [options]\n"
    "\n"
    "  --benchmarks LIST     latency,bandwidth,bibandwidth,message_rate,allreduce,alltoall,\n"
    "                        allgather,bcast,barrier (default: all)\n"
    "  --sizes LIST          message sizes in bytes (default: 0 and the powers of two to 4194304)\n"
    "  --samples N           timed samples per size (default 20)\n"
    "  --seconds-per-size S  cap of the timed part of one size (default 0.02)\n"
    "  --window N            messages in flight in windowed benchmarks (default 64)\n"
    "  --check LEVEL         compare what is received, outside of the timed part: all, sample\n"
    "                        or none (default sample)\n"
    "  --timing NAME         how collectives are timed: synchronised, or by the definitions of\n"
    "                        osu or imb (default synchronised)\n"
    "  --own-clocks          measure the offsets of all ranks' clocks, also of one node's\n"
    "  --memory KIND[,KIND]  where message buffers lie: host, cuda or rocm; with two kinds, of\n"
    "                        rank 0 and of the other of two ranks (default host); a GPU's bytes\n"
    "                        are always checked\n"
    "  --memory-limit BYTES  message buffers of one rank (default 536870912)\n"
    "  --expect-ranks N      end with code 3 unless there are N ranks\n"
    "  --help, --version\n";

static int complain(const char *what, const char *value)
{
    (void)fprintf(stderr, PROGRAM_NAME ": %s `%s`\n%s", what, value, usage);
    return EXIT_USAGE;
}

/* The names of enum check_level and enum timing, in their order. */
static const char *const checks[] = {"none", "sample", "all"};
static const char *const timings[] = {"synchronised", "osu", "imb"};

static bool take_benchmark(const char *name, struct options *options)
{
    for (int i = 0; i < BENCHMARK_COUNT; i++) {
        if (strcmp(benchmark_table[i]->name, name) != 0) {
            continue;
        }
        for (int j = 0; j < options->benchmark_count; j++) {
            if (options->benchmarks[j] == i) {
                return false;
            }
        }
        options->benchmarks[options->benchmark_count++] = i;
        return true;
    }
    return false;
}

static bool take_size(const char *text, struct options *options)
{
    unsigned long long size = 0;
    /* MPI counts are int. */
    if (options->size_count == SIZES_MAX || !parse_whole(text, 0, INT_MAX, &size)) {
        return false;
    }
    for (int i = 0; i < options->size_count; i++) {
        if (options->sizes[i] == size) {
            return false;
        }
    }
    options->sizes[options->size_count++] = (size_t)size;
    return true;
}

/* Call `take` for every part of a comma list; empty parts are refused by it. */
static bool each_part(const char *list, bool (*take)(const char *, struct options *),
                      struct options *options)
{
    const char *at = list;
    for (;;) {
        char part[64];
        size_t length = strcspn(at, ",");
        if (length >= sizeof part) {
            return false;
        }
        memcpy(part, at, length);
        part[length] = '\0';
        if (!take(part, options)) {
            return false;
        }
        if (at[length] == '\0') {
            return true;
        }
        at += length + 1;
    }
}

static bool take_memory(const char *text, struct options *options)
{
    char first[8];
    size_t length = strcspn(text, ",");
    if (length >= sizeof first) {
        return false;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    const char *second = text[length] == ',' ? text + length + 1 : first;
    return parse_name(first, memory_names, MEMORY_KINDS, &options->memory[0]) &&
           parse_name(second, memory_names, MEMORY_KINDS, &options->memory[1]);
}

static bool take_option(const char *name, const char *value, struct options *options)
{
    unsigned long long whole = 0;
    if (strcmp(name, "--benchmarks") == 0) {
        options->benchmark_count = 0;
        return each_part(value, take_benchmark, options);
    }
    if (strcmp(name, "--sizes") == 0) {
        options->size_count = 0;
        return each_part(value, take_size, options);
    }
    if (strcmp(name, "--samples") == 0) {
        return parse_int(value, 1, SAMPLES_MAX, &options->samples);
    }
    if (strcmp(name, "--seconds-per-size") == 0) {
        return parse_seconds(value, &options->seconds);
    }
    if (strcmp(name, "--window") == 0) {
        return parse_int(value, 1, WINDOW_MAX, &options->window);
    }
    if (strcmp(name, "--expect-ranks") == 0) {
        return parse_int(value, 1, INT_MAX, &options->expect_ranks);
    }
    if (strcmp(name, "--check") == 0) {
        return parse_name(value, checks, 3, &options->check);
    }
    if (strcmp(name, "--timing") == 0) {
        return parse_name(value, timings, 3, &options->timing);
    }
    if (strcmp(name, "--memory") == 0) {
        return take_memory(value, options);
    }
    if (strcmp(name, "--memory-limit") == 0) {
        bool good = parse_whole(value, 1, SIZE_MAX / 4, &whole);
        options->memory_limit = (size_t)whole;
        return good;
    }
    return false;
}

static bool is_valued(const char *name)
{
    static const char *const names[] = {
        "--benchmarks", "--sizes",        "--samples",      "--seconds-per-size",
        "--window",     "--memory-limit", "--expect-ranks", "--check",
        "--timing",     "--memory",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool set_defaults(struct options *options)
{
    options->samples = 20;
    options->seconds = 0.02;
    options->window = 64;
    options->memory_limit = (size_t)512 << 20;
    options->check = CHECK_SAMPLE;
    options->timing = TIMING_SYNCHRONISED;
    for (int i = 0; i < BENCHMARK_COUNT; i++) {
        options->benchmarks[options->benchmark_count++] = i;
    }
    options->sizes = calloc(SIZES_MAX, sizeof *options->sizes);
    if (options->sizes == NULL) {
        return false;
    }
    options->sizes[options->size_count++] = 0;
    for (size_t size = 1; size <= (size_t)4 << 20; size *= 2) {
        options->sizes[options->size_count++] = size;
    }
    return true;
}

int options_parse(int argc, char **argv, struct options *options)
{
    memset(options, 0, sizeof *options);
    if (!set_defaults(options)) {
        return EXIT_FAULT;
    }
    for (int i = 1; i < argc; i++) {
        char name[64];
        const char *value = strchr(argv[i], '=');
        size_t length = value == NULL ? strlen(argv[i]) : (size_t)(value - argv[i]);
        if (length >= sizeof name) {
            return complain("unknown option", argv[i]);
        }
        memcpy(name, argv[i], length);
        name[length] = '\0';
        if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(usage, stdout);
            return -1;
        }
        if (strcmp(argv[i], "--version") == 0) {
            (void)puts(PROGRAM_NAME " " PROGRAM_VERSION " (" COMPAT_HEADER ")");
            return -1;
        }
        if (strcmp(argv[i], "--own-clocks") == 0) {
            options->own_clocks = true;
            continue;
        }
        if (!is_valued(name)) {
            return complain("unknown option", argv[i]);
        }
        if (value != NULL) {
            value++;
        } else if (++i < argc) {
            value = argv[i];
        } else {
            return complain("a value is missing after", name);
        }
        if (!take_option(name, value, options)) {
            (void)fprintf(stderr, PROGRAM_NAME ": `%s` is not a value of `%s`\n%s", value, name,
                          usage);
            return EXIT_USAGE;
        }
    }
    bool on_gpu = options->memory[0] != MEMORY_HOST || options->memory[1] != MEMORY_HOST;
    if (on_gpu && options->check == CHECK_NONE) {
        /* An MPI that takes a GPU's address for a host's may go on. */
        options->check = CHECK_SAMPLE;
    }
    return EXIT_DONE;
}

void options_free(struct options *options)
{
    free(options->sizes);
    options->sizes = NULL;
}
