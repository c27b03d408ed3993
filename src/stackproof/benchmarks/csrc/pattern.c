/* Data that tells where a byte comes from: a function of sender, receiver, iteration, message and
 * offset, so that a byte of another message, of another iteration or of nobody is found out. */
#include "bench.h"

#include <string.h>

static uint64_t mix(uint64_t x)
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
    return mix(mix(ranks + UINT64_C(0x9e3779b97f4a7c15)) + (iteration << 32) + (uint32_t)message);
}

static uint64_t word_at(uint64_t seed, uint64_t index)
{
    uint64_t x = (seed + index) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

void pattern_fill(char *at, size_t bytes, uint64_t seed, bool complement)
{
    uint64_t flip = complement ? UINT64_MAX : 0;
    size_t words = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = word_at(seed, i) ^ flip;
        memcpy(at + i * sizeof word, &word, sizeof word);
    }
    uint64_t last = word_at(seed, words) ^ flip;
    memcpy(at + words * sizeof last, &last, bytes % sizeof last);
}

static uint64_t differing_bytes(const char *at, uint64_t expected, size_t bytes)
{
    uint64_t found = 0;
    char wanted[sizeof expected];
    memcpy(wanted, &expected, sizeof expected);
    for (size_t i = 0; i < bytes; i++) {
        found += at[i] != wanted[i];
    }
    return found;
}

uint64_t pattern_errors(const char *at, size_t bytes, uint64_t seed)
{
    uint64_t errors = 0;
    size_t words = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < words; i++) {
        uint64_t expected = word_at(seed, i);
        if (memcmp(at + i * sizeof expected, &expected, sizeof expected) != 0) {
            errors += differing_bytes(at + i * sizeof expected, expected, sizeof expected);
        }
    }
    return errors + differing_bytes(at + words * sizeof(uint64_t), word_at(seed, words),
                                    bytes % sizeof(uint64_t));
}
