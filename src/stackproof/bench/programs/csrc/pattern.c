/* Data that tells where a byte comes from: a function of launch, sender, receiver, iteration,
 * message and offset, so that a byte of another message, of another time or of nobody is found
 * out. */
#include "bench.h"

#include "memory.h"

#include <string.h>

enum { FILL_BYTES = 16 << 10 }; /* a multiple of a word */

static uint64_t launch_seed;

void pattern_begin(uint64_t launch)
{
    launch_seed = launch;
}

uint64_t pattern_mix(uint64_t x)
{
    /* The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t pattern_seed(int source, int destination, uint64_t iteration, int message)
{
    uint64_t ranks = ((uint64_t)(uint32_t)source << 32) | (uint32_t)destination;
    uint64_t who = pattern_mix(ranks + launch_seed + UINT64_C(0x9e3779b97f4a7c15));
    return pattern_mix(who + (iteration << 32) + (uint32_t)message);
}

static uint64_t word_at(uint64_t seed, uint64_t index)
{
    uint64_t x = (seed + index) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

void pattern_part(char *to, size_t offset, size_t bytes, uint64_t seed)
{
    size_t first = offset / sizeof(uint64_t);
    size_t words = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = word_at(seed, first + i);
        memcpy(to + i * sizeof word, &word, sizeof word);
    }
    uint64_t last = word_at(seed, first + words);
    memcpy(to + words * sizeof last, &last, bytes % sizeof last);
}

void pattern_fill(char *at, size_t bytes, uint64_t seed)
{
    for (size_t offset = 0; offset < bytes; offset += FILL_BYTES) {
        char part[FILL_BYTES];
        size_t count = bytes - offset < sizeof part ? bytes - offset : sizeof part;
        pattern_part(part, offset, count, seed);
        memory_put(at + offset, part, count);
    }
}
