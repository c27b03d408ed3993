#include "manifest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"

enum { LAST_LINE_BYTES = 13 }; /* `crc `, eight digits, a line break */

static int damaged(struct sp_error *error, const char *path, const char *why)
{
    (void)sp_fail(error, SP_INVALID_VALUE, "`%s` is no manifest of an artefact: %s", path, why);
    return sp_hint(error, "make the artefact again with `stackproof inject artefact`");
}

/* CRC-32 of ISO 3309, as zlib computes it, four bits at a time. */
static uint32_t checksum(const char *text, size_t length)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
        0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
        0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    uint32_t value = 0xFFFFFFFF;
    for (size_t index = 0; index < length; index++) {
        value ^= (unsigned char)text[index];
        value = value >> 4 ^ table[value & 15];
        value = value >> 4 ^ table[value & 15];
    }
    return ~value;
}

static bool has_checksum(const char *text, size_t length)
{
    if (length < LAST_LINE_BYTES || text[length - 1] != '\n') {
        return false;
    }
    const char *last = text + length - LAST_LINE_BYTES;
    uint32_t value = 0;
    if (memcmp(last, "crc ", 4) != 0 || (last > text && last[-1] != '\n')) {
        return false;
    }
    for (int digit = 0; digit < 8; digit++) {
        static const char digits[] = "0123456789abcdef";
        const char *found = last[4 + digit] == '\0' ? NULL : strchr(digits, last[4 + digit]);
        if (found == NULL) {
            return false;
        }
        value = value << 4 | (uint32_t)(found - digits);
    }
    return value == checksum(text, length - LAST_LINE_BYTES);
}

/* Where the rows of a key go, and how many words they have behind it. */
struct key {
    const char *name;
    size_t least;
    size_t most;
    struct sp_rows *rows;
    const char **single;
};

static bool is_below(const char *path)
{
    return path[0] != '/' && path[0] != '\0' && !sp_path_has_dots(path, strlen(path));
}

/* Cuts a line into words at single spaces, at most `most`, the last one with all that is left;
 * false where there is an empty one. */
static bool cut(struct sp_manifest *manifest, char *line, size_t most)
{
    size_t count = 0;
    for (char *word = line; word != NULL; count++) {
        char *space = count + 1 < most ? strchr(word, ' ') : NULL;
        if (manifest->word_count == SP_MANIFEST_WORDS) {
            return false;
        }
        if (space != NULL) {
            *space++ = '\0';
        }
        if (word[0] == '\0' && count + 1 < most) {
            return false;
        }
        manifest->words[manifest->word_count++] = word;
        word = space;
    }
    return true;
}

static const char *take_row(struct sp_manifest *manifest, const struct key *key, char *rest)
{
    size_t first = manifest->word_count;
    if (!cut(manifest, rest, key->most)) {
        return "a line has empty or too many words";
    }
    size_t count = manifest->word_count - first;
    if (count < key->least) {
        return "a line has too few words";
    }
    if (key->single != NULL) {
        if (*key->single != NULL || strchr(manifest->words[first], ' ') != NULL) {
            return "a line comes twice, or has too many words";
        }
        *key->single = manifest->words[first];
        return NULL;
    }
    if (key->rows->count == SP_MANIFEST_ROWS) {
        return "there are too many lines of one kind";
    }
    key->rows->rows[key->rows->count++] =
        (struct sp_row){.words = manifest->words + first, .count = count};
    return NULL;
}

static const char *take_line(struct sp_manifest *manifest, const char **machine, char *line)
{
    const struct key keys[] = {
        {"name", 1, 1, NULL, &manifest->name},
        {"place", 1, 1, NULL, &manifest->place},
        {"machine", 1, 1, NULL, machine},
        {"isa", 1, 1, NULL, &manifest->isa},
        {"shs", 1, 1, NULL, &manifest->shs},
        {"replace", 3, 3, &manifest->replaces, NULL},
        {"abi", 2, 2, &manifest->abis, NULL},
        {"lacks", 1, SP_MANIFEST_WORDS, &manifest->lacks, NULL},
        {"provides", 1, SP_MANIFEST_WORDS, &manifest->provides, NULL},
        {"part", 1, 1, &manifest->parts, NULL},
        {"needs", 1, SP_MANIFEST_WORDS, &manifest->needs, NULL},
        {"env", 3, 3, &manifest->environment, NULL},
    };
    char *space = strchr(line, ' ');
    if (space == NULL) {
        return "a line has no value";
    }
    *space = '\0';
    for (size_t index = 0; index < sizeof keys / sizeof keys[0]; index++) {
        if (strcmp(line, keys[index].name) == 0) {
            return take_row(manifest, &keys[index], space + 1);
        }
    }
    return "a line begins with an unknown word";
}

/* Returns what is wrong with the whole, or NULL. */
static const char *review(struct sp_manifest *manifest, const char *machine)
{
    if (manifest->name == NULL || manifest->place == NULL || machine == NULL) {
        return "a line is missing";
    }
    if (manifest->place[0] != '/' || sp_path_has_dots(manifest->place, strlen(manifest->place))) {
        return "its place is no absolute path without `.` and `..`";
    }
    char *place = manifest->memory + (manifest->place - manifest->memory);
    (void)sp_path_write_normal(place, strlen(place), place);
    if (manifest->place[1] == '\0') {
        return "its place is the root folder";
    }
    size_t digits = strspn(machine, "0123456789");
    if (digits == 0 || digits > 5 || machine[digits] != '\0') {
        return "its machine is no number";
    }
    manifest->machine = (unsigned)strtoul(machine, NULL, 10);
    for (size_t index = 0; index < manifest->replaces.count; index++) {
        const char *const *words = manifest->replaces.rows[index].words;
        if (strchr(words[1], '/') != NULL || strchr(words[2], ' ') != NULL || !is_below(words[2])) {
            return "a library is not below the artefact";
        }
    }
    return manifest->replaces.count > 0 ? NULL : "there is nothing to inject";
}

int sp_manifest_parse(const char *text, size_t length, const char *path,
                      struct sp_manifest *manifest, struct sp_error *error)
{
    static const char head[] = "stackproof-abi 1\n";
    const char *machine = NULL;
    const char *fault = NULL;
    memset(manifest, 0, sizeof *manifest);
    if (length > SP_MANIFEST_BYTES || memchr(text, '\0', length) != NULL) {
        return damaged(error, path, "it is too long, or no text");
    }
    if (!has_checksum(text, length)) {
        return damaged(error, path, "its checksum is not that of its lines");
    }
    if (length < sizeof head - 1 + LAST_LINE_BYTES || memcmp(text, head, sizeof head - 1) != 0) {
        return damaged(error, path, "its first line is another one");
    }
    length -= LAST_LINE_BYTES + (sizeof head - 1);
    manifest->memory = malloc(length + 1);
    if (manifest->memory == NULL) {
        return sp_fail(error, SP_MOUNT_FAILED, "no memory for `%s`", path);
    }
    memcpy(manifest->memory, text + sizeof head - 1, length);
    manifest->memory[length] = '\0';
    char *rest = manifest->memory;
    while (fault == NULL && rest[0] != '\0') {
        char *line = rest;
        rest = strchr(line, '\n');
        *rest++ = '\0'; /* the last line ends, too: the checksum's is behind it */
        fault = take_line(manifest, &machine, line);
    }
    fault = fault == NULL ? review(manifest, machine) : fault;
    if (fault == NULL) {
        return 0;
    }
    sp_manifest_free(manifest);
    return damaged(error, path, fault);
}

void sp_manifest_free(struct sp_manifest *manifest)
{
    free(manifest->memory);
    manifest->memory = NULL;
}

const struct sp_row *sp_rows_named(const struct sp_rows *rows, const char *name)
{
    for (size_t index = 0; index < rows->count; index++) {
        if (strcmp(rows->rows[index].words[0], name) == 0) {
            return &rows->rows[index];
        }
    }
    return NULL;
}

bool sp_row_has(const struct sp_row *row, const char *word)
{
    for (size_t index = 1; index < row->count; index++) {
        if (strcmp(row->words[index], word) == 0) {
            return true;
        }
    }
    return false;
}
