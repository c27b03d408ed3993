/* Output: one JSON object a line, each line one write, each with a number and a checksum.
 *
 * A line is {"kind":…,"run":…,"n":…, members …,"crc":"8 hexadecimal digits"}. `run` is the same in
 * all lines of one world, `n` counts from 0, and `crc` is the CRC-32 (that of zlib) of everything
 * before `,"crc"`. So a reader can prove that a line is whole, that none is missing, and that all
 * come from one world.
 */
#ifndef STACKPROOF_EMIT_H
#define STACKPROOF_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing text of `"key":value` members; memory that cannot be had ends the program. */
struct text {
    char *data;
    size_t used;
    size_t capacity;
};

void text_free(struct text *text);
void text_raw(struct text *text, const char *data, size_t bytes);
void text_key(struct text *text, const char *key);
void text_string(struct text *text, const char *key, const char *value);
void text_item(struct text *text, const char *value); /* a string within a list */
void text_integer(struct text *text, const char *key, long long value);
void text_unsigned(struct text *text, const char *key, uint64_t value);
void text_real(struct text *text, const char *key, double value);
void text_reals(struct text *text, const char *key, const double *values, int count);
void text_boolean(struct text *text, const char *key, bool value);

/* Choose the identity of this world; called once by rank 0. */
void emit_begin(void);
/* Write one record with these members; return false when the output cannot be written. */
bool emit(const char *kind, const struct text *members);
/* Return how many records were written. */
int emit_count(void);
/* Return whether every record so far reached the output. */
bool emit_ok(void);

#endif
