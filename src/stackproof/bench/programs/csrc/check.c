/* Whether what was received is what was sent: between the samples and after them, never while the
 * clock runs. */
#include "bench.h"

#include "emit.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 16 << 10,     /* bytes compared at once */
    PART = 16 << 10,      /* bytes of one message looked at between two samples */
    LAST_PART = 256 << 10, /* and after the last one */
    ALL_EXCHANGES = 2,
    WRONG_MOST = 8, /* ranks that are told of */
};

/* Distinct slots of an exchange take at most this much where every byte is checked, bytes, and
 * where a sample is. */
static const size_t slots_bytes = (size_t)16 << 20;
static const size_t sample_bytes = (size_t)1 << 20;

/* Slots begin at multiples of a cache line, so that no two messages share one. */
static const size_t slot_alignment = 64;

struct tally check_nothing_yet(void)
{
    struct tally tally = {0, 0, 0, -1, 0, 0, 0, 0};
    return tally;
}

void check_merge(struct tally *into, const struct tally *more)
{
    struct tally first = into->errors != 0 ? *into : *more;
    first.bytes = into->bytes + more->bytes;
    first.errors = into->errors + more->errors;
    *into = first;
}

size_t check_stride(size_t size)
{
    return (size + slot_alignment - 1) / slot_alignment * slot_alignment;
}

int check_window(const struct job *job, const struct benchmark *bench, size_t size)
{
    if (!bench->windowed || size == 0) {
        return 1;
    }
    size_t room = job->options->check == CHECK_ALL ? slots_bytes : sample_bytes;
    size_t slots = room / check_stride(size);
    size_t window = (size_t)job->options->window;
    return (int)(slots < 1 ? 1 : slots > window ? window : slots);
}

static void poison(const struct job *job, const struct benchmark *bench, const struct block *block,
                   size_t from, size_t to)
{
    for (size_t at = from; at < to; at += CHUNK) {
        char wanted[CHUNK];
        size_t bytes = to - at < CHUNK ? to - at : CHUNK;
        bench->expect(job, block, at, bytes, wanted);
        for (size_t i = 0; i < bytes; i++) {
            wanted[i] = (char)~wanted[i];
        }
        memory_put(block->at + at, wanted, bytes);
    }
}

void check_poison(struct job *job, const struct benchmark *bench, uint64_t iteration)
{
    for (int i = 0; i < bench->received(job); i++) {
        struct block block = bench->block(job, i, iteration);
        poison(job, bench, &block, 0, job->size);
    }
}

static struct tally compare(const struct job *job, const struct benchmark *bench,
                            const struct block *block, size_t from, size_t to)
{
    struct tally tally = check_nothing_yet();
    tally.bytes = to - from;
    for (size_t at = from; at < to; at += CHUNK) {
        char wanted[CHUNK];
        char room[CHUNK];
        size_t bytes = to - at < CHUNK ? to - at : CHUNK;
        bench->expect(job, block, at, bytes, wanted);
        const char *seen = memory_view(block->at + at, room, bytes);
        if (memcmp(seen, wanted, bytes) == 0) {
            continue;
        }
        for (size_t i = 0; i < bytes; i++) {
            if (seen[i] == wanted[i]) {
                continue;
            }
            if (tally.errors == 0) {
                tally.offset = at + i;
                tally.source = block->source;
                tally.message = block->message;
                tally.expected = (unsigned char)wanted[i];
                tally.seen = (unsigned char)seen[i];
            }
            tally.errors++;
        }
    }
    return tally;
}

/* Compare a part of one message, elsewhere after each sample, and poison it again. */
static struct tally compare_part(struct job *job, const struct benchmark *bench, int sample,
                                 bool last)
{
    size_t part = last ? LAST_PART : PART;
    uint64_t where = pattern_mix(pattern_seed(job->rank, 0, 0, sample) + (last ? 1 : 0));
    int index = (int)(where % (uint64_t)bench->received(job));
    struct block block = bench->block(job, index, 0);
    size_t from = 0;
    if (job->size > part) {
        from = (size_t)((where >> 20) % ((job->size - part) / 8 + 1)) * 8;
    }
    size_t to = job->size - from < part ? job->size : from + part;
    struct tally tally = compare(job, bench, &block, from, to);
    poison(job, bench, &block, from, to);
    tally.round = sample;
    return tally;
}

struct tally check_sample(struct job *job, const struct benchmark *bench, int sample, bool last)
{
    struct tally tally = check_nothing_yet();
    if (job->size == 0 || bench->received(job) == 0) {
        return tally;
    }
    if (job->options->check == CHECK_SAMPLE) {
        return compare_part(job, bench, sample, last);
    }
    for (int i = 0; i < bench->received(job); i++) {
        struct block block = bench->block(job, i, 0);
        struct tally found = compare(job, bench, &block, 0, job->size);
        found.round = sample;
        check_merge(&tally, &found);
    }
    check_poison(job, bench, 0);
    return tally;
}

struct tally check_exchange(struct job *job, const struct benchmark *bench)
{
    struct tally tally = check_nothing_yet();
    bool all = job->options->check == CHECK_ALL;
    size_t send = 0;
    size_t recv = 0;
    bench->need(job, job->size, 1, &send, &recv);
    if (!all && send + recv > 2 * sample_bytes) {
        return tally;
    }
    job->window = check_window(job, bench, job->size);
    job->stride = bench->windowed ? check_stride(job->size) : 0;
    for (uint64_t round = 1; round <= (all ? ALL_EXCHANGES : 1); round++) {
        bench->fill(job, round);
        check_poison(job, bench, round);
        MPI_Barrier(MPI_COMM_WORLD);
        if (bench->collective) {
            bench->operate(job);
        } else {
            (void)bench->run(job, 1);
        }
        for (int i = 0; i < bench->received(job); i++) {
            struct block block = bench->block(job, i, round);
            struct tally found = compare(job, bench, &block, 0, job->size);
            found.round = ROUND_EXCHANGE;
            check_merge(&tally, &found);
        }
    }
    return tally;
}

static void tell_wrong(const struct job *job, const struct benchmark *bench, int rank,
                       const struct tally *found)
{
    struct text members = {0};
    text_string(&members, "benchmark", bench->name);
    text_unsigned(&members, "size", job->size);
    text_integer(&members, "rank", rank);
    text_unsigned(&members, "bytes", found->errors);
    text_integer(&members, "source", found->source);
    text_integer(&members, "round", found->round);
    text_integer(&members, "message", found->message);
    text_unsigned(&members, "offset", found->offset);
    text_integer(&members, "expected", found->expected);
    text_integer(&members, "seen", found->seen);
    (void)emit("wrong", &members);
    text_free(&members);
}

struct tally check_gather(const struct job *job, const struct benchmark *bench,
                          const struct tally *mine)
{
    struct tally sum = check_nothing_yet();
    uint64_t local[2] = {mine->bytes, mine->errors};
    uint64_t global[2] = {0, 0};
    MPI_Allreduce(local, global, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    sum.bytes = global[0];
    sum.errors = global[1];
    if (sum.errors == 0) {
        return sum;
    }
    struct tally *all = NULL;
    if (job->rank == 0) {
        all = calloc((size_t)job->ranks, sizeof *all);
        if (all == NULL) {
            MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
            exit(EXIT_FAULT);
        }
    }
    MPI_Gather(mine, (int)sizeof *mine, MPI_BYTE, all, (int)sizeof *mine, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    int told = 0;
    for (int rank = 0; all != NULL && rank < job->ranks && told < WRONG_MOST; rank++) {
        if (all[rank].errors != 0) {
            tell_wrong(job, bench, rank, &all[rank]);
            told++;
        }
    }
    free(all);
    return sum;
}
