/* Text that may be shown on a terminal and written to a log: printable UTF-8, in any locale. */
#ifndef STACKPROOF_TEXT_H
#define STACKPROOF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length in bytes of the UTF-8 character (no surrogate) that `text` begins with, and
 * the character itself where that is wanted; 0 where there is none. */
size_t sp_text_decode(const char *text, size_t length, uint32_t *character);

/* Returns whether all of `text` is UTF-8. */
bool sp_text_is_utf8(const char *text, size_t length);

/* Returns whether all of `text` is printable UTF-8. Not printable are control, format, private and
 * separator characters (Unicode's Cc, Cf, Co, Zl, Zp, and Zs but the space), surrogates and
 * noncharacters. */
bool sp_text_is_printable(const char *text, size_t length);

/* Puts `more` behind the text in `target`, cut off where there is no room for all of it. For what
 * each mount writes: the first snprintf(3) of a process costs as much as several system calls. */
void sp_text_append(char *target, size_t room, const char *more);

/* Puts `more` and then a number behind the text in `target`, as sp_text_append does. */
void sp_text_append_number(char *target, size_t room, const char *more, uint64_t number);

/* Writes `text` and a number behind it, where nothing was. */
void sp_text_numbered(char *target, size_t room, const char *text, uint64_t number);

/* Replaces every byte that does not belong to a printable character by `?`. */
void sp_text_make_printable(char *text);

#endif
