#include "record.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "kernel.h"
#include "text.h"
#include "trusted.h"

enum { NAME_BYTES = 96, MOST_WORDS = 4, NANOSECONDS = 1000000000 };

static const char first_line[] = "stackproof-trust 1";

static int damaged(struct sp_error *error, const char *path)
{
    (void)sp_fail(error, SP_INVALID_VALUE, "`%s` is no record of a verified image", path);
    return sp_hint(error, "let the administrator write it again: `stackproof image verify "
                          "--record IMAGE`");
}

/* Returns whether all of a text is a number without a sign. */
static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false; /* strtoull would take signs and spaces */
    }
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *number <= most;
}

static bool parse_time(const char *text, int64_t *moment)
{
    uint64_t number = 0;
    if (!parse_number(text, INT64_MAX, &number)) {
        return false;
    }
    *moment = (int64_t)number;
    return true;
}

/* Cuts a line at single spaces; returns how many words it has, MOST_WORDS + 1 for more. */
static size_t cut(char *line, char **words)
{
    size_t count = 0;
    while (line != NULL && count < MOST_WORDS) {
        words[count++] = line;
        line = strchr(line, ' ');
        if (line != NULL) {
            *line++ = '\0';
        }
    }
    return line == NULL ? count : MOST_WORDS + 1;
}

static bool take_file(struct sp_record *record, char *rest)
{
    char *words[MOST_WORDS];
    bool fits = !record->has_file && cut(rest, words) == 4;
    record->has_file = true;
    return fits && parse_number(words[0], UINT64_MAX, &record->inode) &&
           parse_number(words[1], UINT64_MAX, &record->size) &&
           parse_time(words[2], &record->modified) && parse_time(words[3], &record->changed);
}

static bool take_signed(struct sp_record *record, char *rest)
{
    char *words[MOST_WORDS];
    if (record->count == SP_RECORD_SIGNED || cut(rest, words) != 3 || words[1][0] == '\0' ||
        words[2][0] == '\0') {
        return false;
    }
    struct sp_signed *row = &record->rows[record->count++];
    row->signer = words[1];
    row->label = words[2];
    return parse_time(words[0], &row->until);
}

static bool take_line(struct sp_record *record, char *line)
{
    char *rest = strchr(line, ' ');
    if (rest == NULL) {
        return false;
    }
    *rest++ = '\0';
    if (strcmp(line, "file") == 0) {
        return take_file(record, rest);
    }
    if (strcmp(line, "signed") == 0) {
        return take_signed(record, rest);
    }
    return strcmp(line, "image") == 0 || strcmp(line, "path") == 0;
}

int sp_record_parse(char *text, size_t length, const char *path, struct sp_record *record,
                    struct sp_error *error)
{
    *record = (struct sp_record){.count = 0};
    if (length == 0 || length > SP_RECORD_BYTES || memchr(text, '\0', length) != NULL ||
        text[length - 1] != '\n') {
        return damaged(error, path);
    }
    bool first = true;
    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end == NULL) { /* never: the last byte is one */
            break;
        }
        *end = '\0';
        bool fits = first ? strcmp(line, first_line) == 0 : take_line(record, line);
        if (!fits) {
            record->count = 0;
            return damaged(error, path);
        }
        first = false;
        line = end + 1;
    }
    return 0;
}

/* File systems of Linux that have fs-verity. FUSE is none of them: it hands on what a user's
 * program says. */
static bool has_verity(uint64_t filesystem)
{
    return filesystem == EXT4_SUPER_MAGIC || filesystem == F2FS_SUPER_MAGIC ||
           filesystem == BTRFS_SUPER_MAGIC;
}

static bool name_by_measure(const struct sp_image *image, char *name)
{
    static const char digits[] = "0123456789abcdef";
    struct sp_verity_measure measure = {.size = sizeof measure.digest};
    if (!has_verity(image->filesystem) ||
        ioctl(image->descriptor, SP_MEASURE_VERITY, &measure) != 0 ||
        measure.algorithm != SP_VERITY_SHA256 || measure.size != SP_SHA256_BYTES) {
        return false;
    }
    name[0] = '\0';
    sp_text_append(name, NAME_BYTES, "verity-");
    size_t length = strlen(name);
    for (size_t index = 0; index < SP_SHA256_BYTES; index++) {
        name[length++] = digits[measure.digest[index] >> 4];
        name[length++] = digits[measure.digest[index] & 15];
    }
    name[length] = '\0';
    return true;
}

static bool name_by_file(const struct sp_image *image, struct stat *state, char *name)
{
    if (image->filesystem == FUSE_SUPER_MAGIC || fstat(image->descriptor, state) != 0 ||
        !sp_trusted_state(state, SP_TRUSTED_UNMAPPED)) {
        return false;
    }
    name[0] = '\0';
    sp_text_append_number(name, NAME_BYTES, "file-", state->st_ino);
    sp_text_append_number(name, NAME_BYTES, "-", (uint64_t)state->st_size);
    return true;
}

static int64_t nanoseconds(const struct timespec *moment)
{
    return (int64_t)moment->tv_sec * NANOSECONDS + moment->tv_nsec;
}

static bool is_same_file(const struct sp_record *record, const struct stat *state)
{
    return record->has_file && record->inode == state->st_ino &&
           record->size == (uint64_t)state->st_size &&
           record->modified == nanoseconds(&state->st_mtim) &&
           record->changed == nanoseconds(&state->st_ctim);
}

/* Reads and parses the record of that name; `text` stays NULL where there is none. */
static int read_record(int folder, const char *path, const char *name, char **text,
                       struct sp_record *record, struct sp_error *error)
{
    char whole[PATH_MAX];
    size_t length = 0;
    whole[0] = '\0';
    sp_text_append(whole, sizeof whole, path);
    sp_text_append(whole, sizeof whole, "/");
    sp_text_append(whole, sizeof whole, name);
    if (sp_trusted_read(folder, name, whole, SP_RECORD_BYTES, SP_TRUSTED_UNMAPPED, text, &length,
                        error) != 0) {
        return -1;
    }
    return *text == NULL ? 0 : sp_record_parse(*text, length, whole, record, error);
}

int sp_record_find(int folder, const char *path, const struct sp_image *image, char **text,
                   struct sp_record *record, bool *stale, struct sp_error *error)
{
    char name[NAME_BYTES];
    struct stat state;
    *text = NULL;
    *stale = false;
    *record = (struct sp_record){.count = 0};
    if (folder >= 0 && name_by_measure(image, name)) {
        int result = read_record(folder, path, name, text, record, error);
        if (result != 0 || *text != NULL) {
            return result;
        }
    }
    if (folder < 0 || !name_by_file(image, &state, name)) {
        return 0;
    }
    if (read_record(folder, path, name, text, record, error) != 0) {
        return -1;
    }
    if (*text != NULL && !is_same_file(record, &state)) {
        *stale = true;
        record->count = 0;
    }
    return 0;
}
