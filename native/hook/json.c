#include "json.h"

#include <stdint.h>
#include <string.h>

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        at++;
    }
    return at;
}

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9') {
        return letter - '0';
    }
    if (letter >= 'a' && letter <= 'f') {
        return letter - 'a' + 10;
    }
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/* Returns what is behind a string that begins at `at`, or NULL. */
static const char *check_string(const char *at, const char *end)
{
    if (at >= end || *at != '"') {
        return NULL;
    }
    at++;
    while (at < end && *at != '"') {
        if ((unsigned char)*at < 0x20) {
            return NULL;
        }
        if (*at != '\\') {
            at++;
            continue;
        }
        at++;
        if (at >= end) {
            return NULL;
        }
        if (*at == 'u') {
            for (int digit = 1; digit <= 4; digit++) {
                if (at + digit >= end || hex_digit(at[digit]) < 0) {
                    return NULL;
                }
            }
            at += 4;
        } else if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL) {
            return NULL;
        }
        at++;
    }
    return at < end ? at + 1 : NULL;
}

static bool is_of_number(char letter)
{
    return (letter >= '0' && letter <= '9') || letter == '-' || letter == '+' || letter == '.' ||
           letter == 'e' || letter == 'E';
}

/* Returns what is behind a number or a word, or NULL. */
static const char *check_scalar(const char *at, const char *end)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *start = at;
    for (size_t index = 0; index < sizeof words / sizeof words[0]; index++) {
        size_t length = strlen(words[index]);
        if ((size_t)(end - at) >= length && memcmp(at, words[index], length) == 0) {
            return at + length;
        }
    }
    if (at >= end || (*at != '-' && (*at < '0' || *at > '9'))) {
        return NULL;
    }
    while (at < end && is_of_number(*at)) {
        at++;
    }
    return at > start ? at : NULL;
}

/* Returns what is behind `"name" :`, or NULL. */
static const char *check_key(const char *at, const char *end)
{
    at = check_string(skip_space(at, end), end);
    if (at == NULL) {
        return NULL;
    }
    at = skip_space(at, end);
    return at < end && *at == ':' ? at + 1 : NULL;
}

/* The containers that are open, innermost last: `{` or `[`. */
struct open_ones {
    char kinds[SP_JSON_DEPTH];
    size_t depth;
};

/* Takes the start of a value; sets `whole` where the value ends with it. */
static const char *check_start(const char *at, const char *end, struct open_ones *open, bool *whole)
{
    *whole = true;
    if (at >= end) {
        return NULL;
    }
    if (*at == '"') {
        return check_string(at, end);
    }
    if (*at != '{' && *at != '[') {
        return check_scalar(at, end);
    }
    if (open->depth == SP_JSON_DEPTH) {
        return NULL;
    }
    char closing = *at == '{' ? '}' : ']';
    const char *next = skip_space(at + 1, end);
    if (next < end && *next == closing) {
        return next + 1;
    }
    open->kinds[open->depth++] = *at;
    *whole = false;
    return closing == '}' ? check_key(next, end) : next;
}

/* Takes what follows a whole value: ends of containers, or a comma; sets `done` at the very end. */
static const char *check_end(const char *at, const char *end, struct open_ones *open, bool *done)
{
    *done = false;
    while (open->depth > 0) {
        at = skip_space(at, end);
        if (at >= end) {
            return NULL;
        }
        char kind = open->kinds[open->depth - 1];
        if (*at == ',') {
            return kind == '{' ? check_key(at + 1, end) : at + 1;
        }
        if (*at != (kind == '{' ? '}' : ']')) {
            return NULL;
        }
        open->depth--;
        at++;
    }
    *done = true;
    return at;
}

bool sp_json_read(const char *text, size_t length, struct sp_json *value)
{
    const char *end = text + length;
    const char *at = skip_space(text, end);
    struct open_ones open = {.depth = 0};
    bool done = false;
    value->start = at;
    while (!done) {
        bool whole = false;
        at = check_start(skip_space(at, end), end, &open, &whole);
        if (at != NULL && whole) {
            at = check_end(at, end, &open, &done);
        }
        if (at == NULL) {
            return false;
        }
    }
    value->end = at;
    return skip_space(at, end) == end;
}

/* Returns what is behind a value of a checked document. */
static const char *skip_value(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = check_string(at, end);
            if (at == NULL) {
                return end;
            }
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth == 0) {
            const char *behind = check_scalar(at, end);
            return behind != NULL ? behind : end;
        } else {
            at++;
        }
        if (depth == 0) {
            return at;
        }
    }
    return end;
}

bool sp_json_next(struct sp_json container, struct sp_json *key, struct sp_json *at)
{
    bool named = container.start < container.end && *container.start == '{';
    if (!named && (container.start >= container.end || *container.start != '[')) {
        return false;
    }
    const char *end = container.end - 1; /* the closing bracket */
    const char *next = skip_space(at->end == NULL ? container.start + 1 : at->end, end);
    if (at->end != NULL && next < end && *next == ',') {
        next = skip_space(next + 1, end);
    }
    if (next >= end) {
        return false;
    }
    if (named) {
        const char *behind = check_string(next, end);
        if (behind == NULL) {
            return false;
        }
        if (key != NULL) {
            *key = (struct sp_json){.start = next, .end = behind};
        }
        next = skip_space(skip_space(behind, end) + 1, end);
        if (next >= end) {
            return false;
        }
    }
    *at = (struct sp_json){.start = next, .end = skip_value(next, end)};
    return true;
}

bool sp_json_member(struct sp_json object, const char *name, struct sp_json *found)
{
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    char text[128];
    bool there = false;
    if (object.start >= object.end || *object.start != '{') {
        return false;
    }
    while (sp_json_next(object, &key, &at)) {
        if (sp_json_text(key, text, sizeof text) && strcmp(text, name) == 0) {
            *found = at;
            there = true;
        }
    }
    return there;
}

static uint32_t four_digits(const char *at)
{
    uint32_t value = 0;
    for (int digit = 0; digit < 4; digit++) {
        value = value << 4 | (uint32_t)hex_digit(at[digit]);
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

/* Decodes the escape behind a backslash; returns what is behind it, or NULL. */
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
    if (*character >= 0xD800 && *character < 0xDC00) {
        if (end - at < 6 || at[0] != '\\' || at[1] != 'u') {
            return NULL;
        }
        uint32_t low = four_digits(at + 2);
        if (low < 0xDC00 || low > 0xDFFF) {
            return NULL;
        }
        *character = 0x10000 + ((*character - 0xD800) << 10) + (low - 0xDC00);
        return at + 6;
    }
    return *character >= 0xDC00 && *character <= 0xDFFF ? NULL : at;
}

bool sp_json_text(struct sp_json value, char *target, size_t room)
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
            length = encode(character, bytes);
        } else {
            at++;
        }
        if (bytes[0] == '\0' || used + length >= room) {
            return false;
        }
        memcpy(target + used, bytes, length);
        used += length;
    }
    target[used] = '\0';
    return true;
}

long sp_json_number(struct sp_json value)
{
    long number = 0;
    if (value.end <= value.start || value.end - value.start > 9) {
        return -1;
    }
    for (const char *at = value.start; at < value.end; at++) {
        if (*at < '0' || *at > '9') {
            return -1;
        }
        number = number * 10 + (*at - '0');
    }
    return number;
}
