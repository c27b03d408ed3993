#include "ldcache.h"

#include <stdint.h>
#include <string.h>

static const char magic[] = "glibc-ld.so.cache1.1";

enum { HEADER_BYTES = 48, ENTRY_BYTES = 24, KEY_AT = 4, VALUE_AT = 8 };

static uint32_t word(const char *at)
{
    uint32_t value = 0;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Returns the string at an offset, or NULL where it has no end. */
static const char *text(const char *cache, size_t length, uint32_t offset)
{
    if (offset >= length || memchr(cache + offset, '\0', length - offset) == NULL) {
        return NULL;
    }
    return cache + offset;
}

const char *sp_ldcache_next(const char *cache, size_t length, const char *name, size_t *step)
{
    /* Until glibc 2.31 an older format could stand before it; offsets count from the newer one. */
    const char *start = length == 0 ? NULL : memmem(cache, length, magic, sizeof magic - 1);
    if (start == NULL) {
        return NULL;
    }
    length -= (size_t)(start - cache);
    if (length < HEADER_BYTES) {
        return NULL;
    }
    size_t count = word(start + sizeof magic - 1);
    size_t room = (length - HEADER_BYTES) / ENTRY_BYTES;
    count = count < room ? count : room;
    while (*step < count) {
        const char *entry = start + HEADER_BYTES + *step * ENTRY_BYTES;
        *step += 1;
        const char *key = text(start, length, word(entry + KEY_AT));
        if (key != NULL && strcmp(key, name) == 0) {
            const char *value = text(start, length, word(entry + VALUE_AT));
            if (value != NULL) {
                return value;
            }
        }
    }
    return NULL;
}
