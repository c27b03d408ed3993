/* libFuzzer: whatever the table of an entry point of a pack holds, and whatever environment and C
 * library it meets, nothing is read or written outside, and the environment stays one.
 *
 * An input is 12 bits of the table's size, the table and the environment; and the C library. */
#include "../../src/stackproof/pack/csrc/entry.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TABLE_BYTES = 16384, MOST_VARIABLES = 64, MOST_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

char table[TABLE_BYTES];
static jmp_buf stopped;

/* In the place of that of text.c, which ends the process. */
void stop(const char *what, const char *which, const char *hint)
{
    if (what[0] == '\0' || hint[0] == '\0' || which == NULL) {
        abort();
    }
    longjmp(stopped, 1);
}

static size_t copied(char *target, size_t most, const uint8_t *data, size_t size)
{
    size_t count = size < most ? size : most;
    memcpy(target, data, count);
    memset(target + count, 0, 2);
    return count;
}

/* The folder of the pack is the last word, or none. */
static void check_spare(char **environment)
{
    const char *path = "LD_LIBRARY_PATH";
    look_in_spare(environment, 1);
    look_in_spare(environment, 1);
    char *folder = filled(joined("\1/", find('S'), ""));
    const char *list = valued(environment, path);
    if (list == NULL || strstr(list, folder) == NULL) {
        abort();
    }
    look_in_spare(environment, 0);
    list = valued(environment, path);
    if (list != NULL && strcmp(list, folder) == 0 && strchr(folder, ':') == NULL) {
        abort();
    }
}

static void check_environment(char *texts, size_t bytes)
{
    char *before[MOST_VARIABLES + 1];
    size_t count = 0;
    for (char *at = texts; at < texts + bytes && count < MOST_VARIABLES; at += strlen(at) + 1) {
        before[count++] = at;
    }
    before[count] = NULL;
    char **after_it = changed(before);
    size_t found = 0;
    while (after_it[found] != NULL) {
        found += strlen(after_it[found]) < ARENA_BYTES;
    }
    size_t records = 0;
    for (const char *record = table; *record != '\0'; record = next(record)) {
        records++;
    }
    if (found > count + records) {
        abort();
    }
    if (find('S') != NULL) {
        check_spare(after_it);
    }
}

static void check_library(const uint8_t *data, size_t size)
{
    int file = memfd_create("libc", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size) {
        abort();
    }
    memset(table, 0, sizeof table);
    /* The library lies beside the C library, as which it is looked at first. */
    snprintf(table, sizeof table, "I/bin/sh%cC/proc/self/fd/%d%cR%d%cVX", 0, file, 0, file, 0);
    unsigned newest = 0;
    (void)unfit(&newest);
    const char *version = NULL;
    const char *name = lacking(&version);
    close(file);
    if (newest > 99 || (version != NULL && name == NULL) || used != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char texts[MOST_BYTES + 2];
    static char folder[] = "/a pack";
    if (size < 2) {
        return 0;
    }
    size_t first = (size_t)data[0] << 4 | (size_t)(data[1] & 15);
    const uint8_t *rest = data + 2;
    size_t left = size - 2;
    first = first < left ? first : left;
    root = folder;
    used = 0;
    memset(table, 0, sizeof table);
    copied(table, MOST_BYTES, rest, first);
    size_t bytes = copied(texts, MOST_BYTES, rest + first, left - first);
    if (setjmp(stopped) == 0) {
        check_environment(texts, bytes);
    }
    used = 0;
    if (setjmp(stopped) == 0) {
        check_library(data, size);
    }
    return 0;
}
