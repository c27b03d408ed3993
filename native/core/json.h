/* JSON (RFC 8259): checked once as a whole, then looked into without copies.
 *
 * Nothing is recursive and nothing is allocated, so that no input can take stack or memory. */
#ifndef STACKPROOF_JSON_H
#define STACKPROOF_JSON_H

#include <stdbool.h>
#include <stddef.h>

enum { SP_JSON_DEPTH = 64, SP_JSON_NUMBER_BYTES = 4096 };

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

/* Returns whether an object has at most `most` members, none of them twice, and no escape in their
 * names: whoever steps through it then sees what others see. */
bool sp_json_is_simple(struct sp_json object, size_t most);

/* Writes the text of a string, with an end; false where it is no string, has a NUL, has half a
 * surrogate, or does not fit. */
bool sp_json_text(struct sp_json value, char *target, size_t room);

/* The same for a text that Python has written of bytes: a surrogate of U+DC80 to U+DCFF that stands
 * alone is the byte of its last eight bits (PEP 383). Also false where those bytes together are a
 * character, which Python would not have written so. */
bool sp_json_bytes(struct sp_json value, char *target, size_t room);

/* Returns how many bytes `sp_json_write` needs for a text, with the end. */
size_t sp_json_written_length(const char *text);

/* Writes bytes as Python does: a string of ASCII alone, what is no UTF-8 as above. `target` has
 * room for `sp_json_written_length`. Returns where the end is. */
char *sp_json_write(const char *text, char *target);

/* Returns the value of a whole number of up to nine digits, or -1. */
long sp_json_number(struct sp_json value);

#endif
