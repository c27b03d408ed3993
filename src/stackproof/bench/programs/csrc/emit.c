#include "bench.h"

#include "emit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_id[17];
static int record_count;
static bool all_written = true;

static void text_room(struct text *text, size_t more)
{
    size_t needed = text->used + more + 1;
    if (needed <= text->capacity) {
        return;
    }
    size_t capacity = needed * 2;
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        (void)fputs(PROGRAM_NAME ": out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAULT);
        exit(EXIT_FAULT);
    }
    text->data = data;
    text->capacity = capacity;
}

void text_free(struct text *text)
{
    free(text->data);
    text->data = NULL;
    text->used = 0;
    text->capacity = 0;
}

void text_raw(struct text *text, const char *data, size_t bytes)
{
    text_room(text, bytes);
    memcpy(text->data + text->used, data, bytes);
    text->used += bytes;
    text->data[text->used] = '\0';
}

static void text_put(struct text *text, const char *data)
{
    text_raw(text, data, strlen(data));
}

/* Bytes outside printable ASCII become \u00XX, so a line is always ASCII whatever names hold. */
static void text_quoted(struct text *text, const char *value)
{
    text_put(text, "\"");
    for (const char *c = value; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        char escaped[8];
        if (byte == '"' || byte == '\\') {
            (void)snprintf(escaped, sizeof escaped, "\\%c", byte);
        } else if (byte < 0x20 || byte >= 0x7f) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)byte);
        } else {
            (void)snprintf(escaped, sizeof escaped, "%c", byte);
        }
        text_put(text, escaped);
    }
    text_put(text, "\"");
}

/* A comma goes before an item unless it is the first of its list or object. */
static void text_separate(struct text *text)
{
    if (text->used > 0 && text->data[text->used - 1] != '[' && text->data[text->used - 1] != '{') {
        text_put(text, ",");
    }
}

void text_key(struct text *text, const char *key)
{
    text_separate(text);
    text_quoted(text, key);
    text_put(text, ":");
}

void text_string(struct text *text, const char *key, const char *value)
{
    text_key(text, key);
    text_quoted(text, value);
}

void text_item(struct text *text, const char *value)
{
    text_separate(text);
    text_quoted(text, value);
}

void text_integer(struct text *text, const char *key, long long value)
{
    char digits[32];
    text_key(text, key);
    (void)snprintf(digits, sizeof digits, "%lld", value);
    text_put(text, digits);
}

void text_unsigned(struct text *text, const char *key, uint64_t value)
{
    char digits[32];
    text_key(text, key);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    text_put(text, digits);
}

static void text_number(struct text *text, double value)
{
    char digits[40];
    (void)snprintf(digits, sizeof digits, "%.12g", value);
    text_put(text, digits);
}

void text_real(struct text *text, const char *key, double value)
{
    text_key(text, key);
    text_number(text, value);
}

void text_reals(struct text *text, const char *key, const double *values, int count)
{
    text_key(text, key);
    text_put(text, "[");
    for (int i = 0; i < count; i++) {
        text_separate(text);
        text_number(text, values[i]);
    }
    text_put(text, "]");
}

void text_boolean(struct text *text, const char *key, bool value)
{
    text_key(text, key);
    text_put(text, value ? "true" : "false");
}

static uint32_t crc32_of(const char *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1U) != 0 ? UINT32_C(0xedb88320) : 0);
        }
    }
    return ~crc;
}

void emit_begin(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t seed = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    (void)snprintf(run_id, sizeof run_id, "%016" PRIx64,
                   pattern_seed((int)getpid(), 0, seed, 0));
}

static bool write_all(const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(STDOUT_FILENO, data, bytes);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

bool emit(const char *kind, const struct text *members)
{
    struct text line = {0};
    text_put(&line, "{");
    text_string(&line, "kind", kind);
    text_string(&line, "run", run_id);
    text_integer(&line, "n", record_count);
    if (members->used > 0) {
        text_put(&line, ",");
        text_raw(&line, members->data, members->used);
    }
    char tail[32];
    (void)snprintf(tail, sizeof tail, ",\"crc\":\"%08" PRIx32 "\"}\n",
                   crc32_of(line.data, line.used));
    text_put(&line, tail);
    record_count++;
    all_written = write_all(line.data, line.used) && all_written;
    text_free(&line);
    return all_written;
}

int emit_count(void)
{
    return record_count;
}

bool emit_ok(void)
{
    return all_written;
}
