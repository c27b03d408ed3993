/* Strings of JSON to bytes and back. */
#include "json.h"

#include <stdint.h>
#include <string.h>

#include "text.h"

/* Returns the value of four hexadecimal digits, which were checked. */
static uint32_t four_digits(const char *at)
{
    uint32_t value = 0;
    for (int digit = 0; digit < 4; digit++) {
        uint32_t letter = (unsigned char)at[digit];
        value = value << 4 | (letter <= '9' ? letter - '0' : (letter | 0x20U) - 'a' + 10);
    }
    return value;
}

/* Writes a character as UTF-8; returns its length. */
static size_t encode(uint32_t character, char *target)
{
    if (character < 0x80) {
        target[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        target[0] = (char)(0xC0 | character >> 6);
        target[1] = (char)(0x80 | (character & 0x3F));
        return 2;
    }
    if (character < 0x10000) {
        target[0] = (char)(0xE0 | character >> 12);
        target[1] = (char)(0x80 | (character >> 6 & 0x3F));
        target[2] = (char)(0x80 | (character & 0x3F));
        return 3;
    }
    target[0] = (char)(0xF0 | character >> 18);
    target[1] = (char)(0x80 | (character >> 12 & 0x3F));
    target[2] = (char)(0x80 | (character >> 6 & 0x3F));
    target[3] = (char)(0x80 | (character & 0x3F));
    return 4;
}

enum { FIRST_HALF = 0xD800, SECOND_HALF = 0xDC00, LAST_HALF = 0xDFFF };
/* Surrogates that stand for a byte: the byte is what is above the first. */
enum { BYTE_ESCAPES = 0xDC00, FIRST_BYTE_ESCAPE = 0xDC80, LAST_BYTE_ESCAPE = 0xDCFF };

/* Decodes the escape behind a backslash; returns what is behind it, or NULL. The second half of a
 * surrogate pair may stand alone: the caller looks whether it wants that. */
static const char *unescape(const char *at, const char *end, uint32_t *character)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    if (*at != 'u') {
        const char *found = memchr(letters, *at, sizeof letters - 1);
        *character = found == NULL ? 0 : (unsigned char)meant[found - letters];
        return found == NULL ? NULL : at + 1;
    }
    if (end - at < 5) {
        return NULL;
    }
    *character = four_digits(at + 1);
    at += 5;
    if (*character < FIRST_HALF || *character >= SECOND_HALF) {
        return at;
    }
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') {
        return NULL;
    }
    uint32_t low = four_digits(at + 2);
    if (low < SECOND_HALF || low > LAST_HALF) {
        return NULL;
    }
    *character = 0x10000 + ((*character - FIRST_HALF) << 10) + (low - SECOND_HALF);
    return at + 6;
}

/* Writes one character that was escaped; returns its length, 0 where it cannot be. */
static size_t write_escaped(uint32_t character, bool bytes, char *target)
{
    if (character >= SECOND_HALF && character <= LAST_HALF) {
        target[0] = (char)(unsigned char)(character - BYTE_ESCAPES);
        return bytes && character >= FIRST_BYTE_ESCAPE && character <= LAST_BYTE_ESCAPE ? 1 : 0;
    }
    return encode(character, target);
}

/* Decodes a string; `*escaped` counts the bytes that were written as surrogates. */
static bool decode(struct sp_json value, char *target, size_t room, size_t *escaped)
{
    size_t used = 0;
    if (value.end - value.start < 2 || *value.start != '"' || room == 0) {
        return false;
    }
    const char *at = value.start + 1;
    const char *end = value.end - 1;
    while (at < end) {
        char bytes[4] = {*at, 0, 0, 0};
        size_t length = 1;
        if (*at == '\\') {
            uint32_t character = 0;
            at = at + 1 < end ? unescape(at + 1, end, &character) : NULL;
            if (at == NULL) {
                return false;
            }
            length = write_escaped(character, escaped != NULL, bytes);
            if (escaped != NULL && length == 1 && character >= FIRST_BYTE_ESCAPE) {
                (*escaped)++;
            }
        } else {
            at++;
        }
        if (length == 0 || bytes[0] == '\0' || used + length >= room) {
            return false;
        }
        memcpy(target + used, bytes, length);
        used += length;
    }
    target[used] = '\0';
    return true;
}

bool sp_json_text(struct sp_json value, char *target, size_t room)
{
    return decode(value, target, room, NULL);
}

bool sp_json_bytes(struct sp_json value, char *target, size_t room)
{
    size_t escaped = 0;
    size_t lonely = 0;
    if (!decode(value, target, room, &escaped)) {
        return false;
    }
    for (const char *at = target; *at != '\0';) {
        size_t length = sp_text_decode(at, strlen(at), NULL);
        lonely += length == 0;
        at += length > 0 ? length : 1;
    }
    return lonely == escaped;
}

/* Writes one UTF-16 unit as an escape, where there is a target; returns its length. */
static size_t write_unit(uint32_t unit, char *target)
{
    static const char digits[] = "0123456789abcdef";
    if (target != NULL) {
        target[0] = '\\';
        target[1] = 'u';
        for (unsigned digit = 0; digit < 4; digit++) {
            target[2 + digit] = digits[unit >> (12 - 4 * digit) & 0xF];
        }
    }
    return 6;
}

/* Writes a character of a string, where there is a target; returns its length. */
static size_t write_character(uint32_t character, char *target)
{
    static const char letters[] = "\"\\bfnrt";
    static const char meant[] = "\"\\\b\f\n\r\t";
    const char *found = character < 0x80 ? memchr(meant, (int)character, sizeof meant - 1) : NULL;
    if (found != NULL) {
        if (target != NULL) {
            target[0] = '\\';
            target[1] = letters[found - meant];
        }
        return 2;
    }
    if (character >= ' ' && character <= '~') {
        if (target != NULL) {
            *target = (char)character;
        }
        return 1;
    }
    if (character < 0x10000) {
        return write_unit(character, target);
    }
    (void)write_unit(FIRST_HALF + ((character - 0x10000) >> 10), target);
    (void)write_unit(SECOND_HALF + (character & 0x3FF), target == NULL ? NULL : target + 6);
    return 12;
}

/* Writes a string, or counts its bytes where `target` is NULL; without the end. */
static size_t write_string(const char *text, char *target)
{
    size_t left = strlen(text);
    size_t used = 1;
    while (left > 0) {
        uint32_t character = 0;
        size_t length = sp_text_decode(text, left, &character);
        if (length == 0) {
            character = BYTE_ESCAPES + (unsigned char)*text;
            length = 1;
        }
        used += write_character(character, target == NULL ? NULL : target + used);
        text += length;
        left -= length;
    }
    if (target != NULL) {
        target[0] = '"';
        target[used] = '"';
    }
    return used + 1;
}

size_t sp_json_written_length(const char *text)
{
    return write_string(text, NULL) + 1;
}

char *sp_json_write(const char *text, char *target)
{
    char *end = target + write_string(text, target);
    *end = '\0';
    return end;
}
