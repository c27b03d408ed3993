#include "text.h"

#include <stdint.h>
#include <string.h>

/* Categories of Unicode 14 without the letters, marks, numbers, symbols and what is unassigned. */
static const uint32_t unprintable[][2] = {
    {0x0000, 0x001F},   {0x007F, 0x00A0},   {0x00AD, 0x00AD},    {0x0600, 0x0605},
    {0x061C, 0x061C},   {0x06DD, 0x06DD},   {0x070F, 0x070F},    {0x0890, 0x0891},
    {0x08E2, 0x08E2},   {0x1680, 0x1680},   {0x180E, 0x180E},    {0x2000, 0x200F},
    {0x2028, 0x202F},   {0x205F, 0x206F},   {0x3000, 0x3000},    {0xD800, 0xF8FF},
    {0xFDD0, 0xFDEF},   {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},    {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},  {0x1D173, 0x1D17A},
    {0xE0000, 0xE00FF}, {0xE01F0, 0xE0FFF}, {0xF0000, 0x10FFFF},
};

static bool is_printable(uint32_t character)
{
    if (character >= ' ' && character < 0x7F) {
        return true; /* nearly all of them: the ranges are not looked through */
    }
    if ((character & 0xFFFEU) == 0xFFFEU) {
        return false; /* the last two of each plane */
    }
    for (size_t range = 0; range < sizeof unprintable / sizeof unprintable[0]; range++) {
        if (character >= unprintable[range][0] && character <= unprintable[range][1]) {
            return false;
        }
    }
    return true;
}

size_t sp_text_decode(const char *text, size_t length, uint32_t *character)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = length > 0 ? (unsigned char)text[0] : 0xFF;
    size_t wanted = 0;
    uint32_t value = 0;
    if (first < 0x80) {
        wanted = 1;
        value = first;
    } else if ((first & 0xE0) == 0xC0) {
        wanted = 2;
        value = first & 0x1FU;
    } else if ((first & 0xF0) == 0xE0) {
        wanted = 3;
        value = first & 0x0FU;
    } else if ((first & 0xF8) == 0xF0) {
        wanted = 4;
        value = first & 0x07U;
    }
    if (wanted == 0 || wanted > length) {
        return 0;
    }
    for (size_t index = 1; index < wanted; index++) {
        if (((unsigned char)text[index] & 0xC0) != 0x80) {
            return 0;
        }
        value = value << 6 | ((unsigned char)text[index] & 0x3FU);
    }
    bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (value < smallest[wanted] || value > 0x10FFFF || surrogate) {
        return 0; /* written longer than needed, beyond Unicode, or half a character */
    }
    if (character != NULL) {
        *character = value;
    }
    return wanted;
}

/* Returns the length in bytes of the printable character that `text` begins with, or 0. */
static size_t printable_length(const char *text, size_t length)
{
    uint32_t character = 0;
    size_t found = sp_text_decode(text, length, &character);
    return found > 0 && is_printable(character) ? found : 0;
}

bool sp_text_is_utf8(const char *text, size_t length)
{
    size_t step = 0;
    for (size_t index = 0; index < length; index += step) {
        step = sp_text_decode(text + index, length - index, NULL);
        if (step == 0) {
            return false;
        }
    }
    return true;
}

bool sp_text_is_printable(const char *text, size_t length)
{
    size_t step = 0;
    for (size_t index = 0; index < length; index += step) {
        step = printable_length(text + index, length - index);
        if (step == 0) {
            return false;
        }
    }
    return true;
}

void sp_text_append(char *target, size_t room, const char *more)
{
    size_t used = strlen(target);
    size_t length = strlen(more);
    if (used + 1 < room) {
        size_t fits = length < room - used ? length : room - used - 1;
        memcpy(target + used, more, fits);
        target[used + fits] = '\0';
    }
}

void sp_text_append_number(char *target, size_t room, const char *more, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    sp_text_append(target, room, more);
    sp_text_append(target, room, digits + at);
}

void sp_text_numbered(char *target, size_t room, const char *text, uint64_t number)
{
    target[0] = '\0';
    sp_text_append_number(target, room, text, number);
}

void sp_text_make_printable(char *text)
{
    size_t length = strlen(text);
    size_t index = 0;
    while (index < length) {
        size_t step = printable_length(text + index, length - index);
        if (step == 0) {
            text[index] = '?';
            step = 1;
        }
        index += step;
    }
}
