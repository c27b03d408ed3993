#include "ldcache.h"

#include <limits.h>
#include <stdbool.h>
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

/* Returns the path at an offset, or NULL where none ends in time: a hostile cache has as many
 * entries as fit, and text without an end behind all of them. */
static const char *path_at(const char *cache, size_t length, uint32_t offset)
{
    if (offset >= length) {
        return NULL;
    }
    size_t room = length - offset < PATH_MAX ? length - offset : PATH_MAX;
    return memchr(cache + offset, '\0', room) != NULL ? cache + offset : NULL;
}

/* Returns whether the string at an offset is `name`, of `size` bytes with its end. */
static bool is_name(const char *cache, size_t length, uint32_t offset, const char *name,
                    size_t size)
{
    return offset < length && length - offset >= size && memcmp(cache + offset, name, size) == 0;
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
    size_t size = strlen(name) + 1;
    size_t count = word(start + sizeof magic - 1);
    size_t room = (length - HEADER_BYTES) / ENTRY_BYTES;
    count = count < room ? count : room;
    while (*step < count) {
        const char *entry = start + HEADER_BYTES + *step * ENTRY_BYTES;
        *step += 1;
        if (is_name(start, length, word(entry + KEY_AT), name, size)) {
            const char *value = path_at(start, length, word(entry + VALUE_AT));
            if (value != NULL) {
                return value;
            }
        }
    }
    return NULL;
}
