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

/* Replaces every byte that does not belong to a printable character by `?`. */
void sp_text_make_printable(char *text);

#endif
