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

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

/* Returns what is behind a number, or NULL. */
static const char *check_number(const char *at, const char *end)
{
    const char *limit = at + SP_JSON_NUMBER_BYTES;
    end = end - at > SP_JSON_NUMBER_BYTES ? limit : end;
    at += at < end && *at == '-';
    const char *whole = skip_digits(at, end);
    if (whole == at || (*at == '0' && whole > at + 1)) {
        return NULL; /* without a digit, or with a leading zero */
    }
    at = whole;
    if (at < end && *at == '.') {
        const char *fraction = skip_digits(at + 1, end);
        if (fraction == at + 1) {
            return NULL;
        }
        at = fraction;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '-' || *at == '+');
        const char *exponent = skip_digits(at, end);
        at = exponent == at ? limit : exponent;
    }
    return at == limit ? NULL : at; /* whatever is that long is not meant to be a number */
}

/* Returns what is behind a number or a word, or NULL. */
static const char *check_scalar(const char *at, const char *end)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t index = 0; index < sizeof words / sizeof words[0]; index++) {
        size_t length = strlen(words[index]);
        if ((size_t)(end - at) >= length && memcmp(at, words[index], length) == 0) {
            return at + length;
        }
    }
    return check_number(at, end);
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

static bool same_text(struct sp_json left, struct sp_json right)
{
    size_t length = (size_t)(left.end - left.start);
    return (size_t)(right.end - right.start) == length &&
           memcmp(left.start, right.start, length) == 0;
}

bool sp_json_is_simple(struct sp_json object, size_t most)
{
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    size_t count = 0;
    while (sp_json_next(object, &key, &at)) {
        struct sp_json other_key = {.start = NULL, .end = NULL};
        struct sp_json other = {.start = NULL, .end = NULL};
        if (count++ == most || key.start == NULL ||
            memchr(key.start, '\\', (size_t)(key.end - key.start)) != NULL) {
            return false;
        }
        while (sp_json_next(object, &other_key, &other) && other.start != at.start) {
            if (same_text(key, other_key)) {
                return false;
            }
        }
    }
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
