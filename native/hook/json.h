/* JSON (RFC 8259) as a hook reads it: checked once as a whole, then looked into without copies.
 *
 * Nothing is recursive and nothing is allocated, so that no input can take stack or memory. */
#ifndef STACKPROOF_JSON_H
#define STACKPROOF_JSON_H

#include <stdbool.h>
#include <stddef.h>

enum { SP_JSON_DEPTH = 64 };

/* One value of a checked document: from its first byte to behind its last one. */
struct sp_json {
    const char *start;
    const char *end;
};

/* Returns whether a text is one JSON value, nested at most SP_JSON_DEPTH deep, and gives it. */
bool sp_json_read(const char *text, size_t length, struct sp_json *value);

/* Finds the member of an object by its name, the last one where it comes twice, as Go and Python
 * do; false where there is none, or where the value is no object. */
bool sp_json_member(struct sp_json object, const char *name, struct sp_json *found);

/* Steps through the elements of an array, or the members of an object: the first call has
 * `at->end` NULL. `key` (may be NULL) is the name of a member. False behind the last one. */
bool sp_json_next(struct sp_json container, struct sp_json *key, struct sp_json *at);

/* Writes the text of a string, with an end; false where it is no string, has a NUL, has half a
 * surrogate, or does not fit. */
bool sp_json_text(struct sp_json value, char *target, size_t room);

/* Returns the value of a whole number of up to nine digits, or -1. */
long sp_json_number(struct sp_json value);

#endif
