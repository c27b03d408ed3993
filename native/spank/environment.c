#include "environment.h"

#include <string.h>

#include "../core/json.h"
#include "../core/text.h"
#include "names.h"

enum { MOST_ENTRIES = 4096, MOST_CHANGES = 1024 };

static struct environment_row *find(const struct environment *environment, const char *name,
                                    size_t length)
{
    for (size_t number = 0; number < environment->count; number++) {
        struct environment_row *row = &environment->rows[number];
        if (strncmp(row->name, name, length) == 0 && row->name[length] == '\0') {
            return row;
        }
    }
    return NULL;
}

/* Returns the row of a variable, a new one if need be; NULL where there is no room. */
static struct environment_row *row_of(struct environment *environment, const char *name)
{
    struct environment_row *row = find(environment, name, strlen(name));
    if (row == NULL && environment->count < ENVIRONMENT_ROWS) {
        row = &environment->rows[environment->count++];
        *row = (struct environment_row){.name = name};
    }
    return row;
}

/* Decodes a string of the record, or null. */
static enum environment_end read_value(struct environment *environment, struct sp_json value,
                                       const char **text)
{
    size_t room = (size_t)(value.end - value.start);
    *text = NULL;
    if (*value.start == 'n') {
        return ENVIRONMENT_DONE;
    }
    char *decoded = sp_arena_take(environment->arena, room);
    if (decoded == NULL) {
        return ENVIRONMENT_FULL;
    }
    *text = decoded;
    return sp_json_bytes(value, decoded, room) ? ENVIRONMENT_DONE : ENVIRONMENT_UNSURE;
}

/* Takes one change back, unless somebody else has changed the variable since then. `value` is
 * [before, after]; another shape is nobody's record. */
static enum environment_end take_back(struct environment *environment, struct sp_json key,
                                      struct sp_json value)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    const char *texts[2] = {NULL, NULL};
    const char *name = NULL;
    size_t count = 0;
    enum environment_end end = read_value(environment, key, &name);
    while (end == ENVIRONMENT_DONE && sp_json_next(value, NULL, &at)) {
        if (*value.start != '[' || count == 2 || (*at.start != '"' && *at.start != 'n')) {
            return ENVIRONMENT_DONE;
        }
        end = read_value(environment, at, &texts[count++]);
    }
    if (end != ENVIRONMENT_DONE || count != 2) {
        return end;
    }
    if (name == NULL || *name == '\0' || strchr(name, '=') != NULL) {
        return ENVIRONMENT_UNSURE;
    }
    struct environment_row *row = row_of(environment, name);
    if (row == NULL) {
        return ENVIRONMENT_FULL;
    }
    bool as_it_was = row->now == NULL ? texts[1] == NULL
                                      : texts[1] != NULL && strcmp(row->now, texts[1]) == 0;
    if (as_it_was) {
        row->before = row->after = texts[0];
    }
    return ENVIRONMENT_DONE;
}

static enum environment_end leave(struct environment *environment)
{
    struct environment_row *record = row_of(environment, NAME_UNDO);
    struct sp_json whole = {.start = NULL, .end = NULL};
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    enum environment_end end = ENVIRONMENT_DONE;
    if (record == NULL) {
        return ENVIRONMENT_FULL;
    }
    if (record->now != NULL) {
        size_t length = strlen(record->now);
        if (!sp_json_read(record->now, length, &whole) || *whole.start != '{' ||
            !sp_text_is_utf8(record->now, length) || !sp_json_is_simple(whole, MOST_CHANGES)) {
            return ENVIRONMENT_UNSURE;
        }
        while (end == ENVIRONMENT_DONE && sp_json_next(whole, &key, &at)) {
            end = take_back(environment, key, at);
        }
    }
    record->before = record->after = NULL;
    return end;
}

enum environment_end environment_read(char *const variables[], struct sp_arena *arena,
                                      struct environment *environment)
{
    *environment = (struct environment){.arena = arena};
    environment->rows = sp_arena_take(arena, ENVIRONMENT_ROWS * sizeof *environment->rows);
    environment->entries = sp_arena_take(arena, MOST_ENTRIES * sizeof *environment->entries);
    if (environment->rows == NULL || environment->entries == NULL) {
        return ENVIRONMENT_FULL;
    }
    for (; *variables != NULL; variables++) {
        const char *equals = strchr(*variables, '=');
        if (equals == NULL || equals == *variables) {
            continue;
        }
        const char *name = sp_arena_copy(arena, *variables, (size_t)(equals - *variables));
        size_t before = environment->count;
        struct environment_row *row = name != NULL ? row_of(environment, name) : NULL;
        if (row == NULL) {
            return ENVIRONMENT_FULL;
        }
        if (environment->count > before) { /* of two with one name the first counts */
            row->now = row->before = row->after = equals + 1;
        }
    }
    return leave(environment);
}

enum environment_end environment_set(struct environment *environment, const char *name,
                                     const char *value)
{
    struct environment_row *row = row_of(environment, name);
    if (row == NULL) {
        return ENVIRONMENT_FULL;
    }
    row->after = value;
    return ENVIRONMENT_DONE;
}

/* Adds the entries of a text that are not there yet; false where there are too many. */
static bool add_entries(const char *text, struct environment_entry *entries, size_t *count)
{
    while (text != NULL) {
        size_t length = strcspn(text, ":");
        size_t number = 0;
        while (number < *count && (entries[number].length != length ||
                                   memcmp(entries[number].text, text, length) != 0)) {
            number++;
        }
        if (number == *count && length > 0) {
            if (*count == MOST_ENTRIES) {
                return false;
            }
            entries[(*count)++] = (struct environment_entry){.text = text, .length = length};
        }
        text = text[length] == ':' ? text + length + 1 : NULL;
    }
    return true;
}

enum environment_end environment_extend(struct environment *environment, const char *name,
                                        const char *front, const char *behind)
{
    struct environment_row *row = row_of(environment, name);
    struct environment_entry *entries = environment->entries;
    size_t count = 0;
    size_t length = 0;
    if (row == NULL) {
        return ENVIRONMENT_FULL;
    }
    if (!add_entries(front, entries, &count) || !add_entries(row->after, entries, &count) ||
        !add_entries(behind, entries, &count)) {
        return ENVIRONMENT_UNSURE;
    }
    for (size_t number = 0; number < count; number++) {
        length += entries[number].length + 1;
    }
    row->after = NULL;
    if (count == 0) {
        return ENVIRONMENT_DONE;
    }
    char *text = sp_arena_take(environment->arena, length);
    if (text == NULL) {
        return ENVIRONMENT_FULL;
    }
    row->after = text;
    for (size_t number = 0; number < count; number++) {
        memcpy(text, entries[number].text, entries[number].length);
        text += entries[number].length;
        *text++ = number + 1 < count ? ':' : '\0';
    }
    return ENVIRONMENT_DONE;
}

/* Writes the resolved text where there is a target; returns its length. */
static size_t resolve(const struct environment *environment, const char *text, char *target)
{
    static const char opening[] = "${@";
    static const char closing[] = "@}";
    size_t used = 0;
    for (;;) {
        const char *begin = strstr(text, opening);
        const char *name = begin != NULL ? begin + sizeof opening - 1 : NULL;
        const char *end = name != NULL ? strstr(name, closing) : NULL;
        size_t plain = end != NULL ? (size_t)(begin - text) : strlen(text);
        if (target != NULL) {
            memcpy(target + used, text, plain);
        }
        used += plain;
        if (end == NULL) {
            return used;
        }
        const struct environment_row *row = find(environment, name, (size_t)(end - name));
        if (row != NULL && row->before != NULL) {
            size_t length = strlen(row->before);
            if (target != NULL) {
                memcpy(target + used, row->before, length);
            }
            used += length;
        }
        text = end + sizeof closing - 1;
    }
}

const char *environment_resolve(const struct environment *environment, const char *text)
{
    size_t length = resolve(environment, text, NULL);
    char *resolved = sp_arena_take(environment->arena, length + 1);
    if (resolved != NULL) {
        (void)resolve(environment, text, resolved);
    }
    return resolved;
}

static const char null_word[] = "null";

static size_t value_length(const char *value)
{
    return value == NULL ? sizeof null_word : sp_json_written_length(value);
}

static char *write_value(const char *value, char *target)
{
    if (value != NULL) {
        return sp_json_write(value, target);
    }
    memcpy(target, null_word, sizeof null_word);
    return target + sizeof null_word - 1;
}

static bool is_changed(const struct environment_row *row)
{
    bool same = row->before == NULL || row->after == NULL ? row->before == row->after
                                                          : strcmp(row->before, row->after) == 0;
    return !same && strcmp(row->name, NAME_UNDO) != 0;
}

enum environment_end environment_record(struct environment *environment)
{
    size_t length = 0;
    for (size_t number = 0; number < environment->count; number++) {
        const struct environment_row *row = &environment->rows[number];
        if (is_changed(row)) {
            length += sp_json_written_length(row->name) + value_length(row->before) +
                      value_length(row->after) + 4; /* `:[`, two commas, `]`: ends are counted */
        }
    }
    struct environment_row *record = row_of(environment, NAME_UNDO);
    char *text = sp_arena_take(environment->arena, length + 3);
    if (record == NULL || text == NULL) {
        return ENVIRONMENT_FULL;
    }
    record->after = length > 0 ? text : NULL;
    char *at = text;
    for (size_t number = 0; number < environment->count; number++) {
        const struct environment_row *row = &environment->rows[number];
        if (is_changed(row)) {
            *at = at == text ? '{' : ',';
            at = sp_json_write(row->name, at + 1);
            *at++ = ':';
            *at++ = '[';
            at = write_value(row->before, at);
            *at++ = ',';
            at = write_value(row->after, at);
            *at++ = ']';
        }
    }
    *at++ = '}';
    *at = '\0';
    return ENVIRONMENT_DONE;
}
