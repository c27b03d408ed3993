#include "mountlist.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"
#include "text.h"

/* A mount would hide what the system or the user needs; some also when it hides only a part. */
static const char *const system_alone[] = {
    "/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/var",
};
static const char *const system_trees[] = {
    "/bin",       "/boot",    "/dev",     "/etc",      "/lib",     "/lib32",
    "/lib64",     "/libx32",  "/proc",    "/sbin",     "/sys",     "/usr",
    "/var/cache", "/var/lib", "/var/log", "/var/mail", "/var/run", "/var/spool",
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ENTRY_HINT "write IMAGE[:MOUNT][,IMAGE[:MOUNT]...]"

/* What a parse works on, so that its parts need few parameters. */
struct parse {
    struct sp_mount_list *list;
    char *free_memory;
    size_t problems;
    sp_problem_listener *listener;
    void *context;
    struct sp_error *error;
};

/* Returns whether an absolute path is the normal path `tree` or, where `inside` says so, below it;
 * several slashes in `path` count as one. */
static bool is_at(const char *path, size_t length, const char *tree, bool inside)
{
    size_t index = 0;
    while (*tree != '\0') {
        if (*tree == '/') {
            if (index >= length || path[index] != '/') {
                return false;
            }
            while (index < length && path[index] == '/') {
                index++;
            }
            tree++;
        } else if (index < length && path[index] == *tree) {
            index++;
            tree++;
        } else {
            return false;
        }
    }
    if (inside && index < length && path[index] == '/') {
        return true;
    }
    while (index < length && path[index] == '/') {
        index++;
    }
    return index == length;
}

const char *sp_bad_mount_point(const char *path, size_t length)
{
    if (length == 0 || path[0] != '/') {
        return "it is not absolute";
    }
    if (memchr(path, ',', length) != NULL || memchr(path, ':', length) != NULL ||
        !sp_text_is_printable(path, length)) {
        return "it has a comma, a colon or an unprintable character";
    }
    if (sp_path_has_dots(path, length)) {
        return "it has a part `.` or `..`";
    }
    for (size_t index = 0; index < COUNT(system_trees); index++) {
        if (is_at(path, length, system_trees[index], false)) {
            return "it is a system path";
        }
        if (is_at(path, length, system_trees[index], true)) {
            return "it is inside of a system path";
        }
    }
    for (size_t index = 0; index < COUNT(system_alone); index++) {
        if (is_at(path, length, system_alone[index], false)) {
            return "it is a system path";
        }
    }
    return NULL;
}

/* Takes note of the problem in `problem`. */
static void tell(struct parse *parse, const struct sp_error *problem)
{
    if (parse->problems++ == 0) {
        *parse->error = *problem;
    }
    if (parse->listener != NULL) {
        parse->listener(parse->context, problem);
    }
}

static int shown(size_t length)
{
    return length > 256 ? 256 : (int)length;
}

/* Returns the colon before the mount point, NULL for none. One before a letter, a digit or `_`
 * begins the tag of a label, which is the image's. */
static const char *find_mount(const char *entry, size_t length)
{
    const char *colon = length == 0 ? NULL : memchr(entry, ':', length);
    size_t behind = colon == NULL ? length : (size_t)(colon - entry) + 1;
    if (behind >= length || behind == 1 ||
        !(entry[behind] == '_' || (entry[behind] >= '0' && entry[behind] <= '9') ||
          (entry[behind] >= 'A' && entry[behind] <= 'Z') ||
          (entry[behind] >= 'a' && entry[behind] <= 'z'))) {
        return colon;
    }
    return memchr(entry + behind, ':', length - behind);
}

static void parse_entry(struct parse *parse, const char *entry, size_t length)
{
    struct sp_error problem;
    const char *colon = find_mount(entry, length);
    size_t image_length = colon == NULL ? length : (size_t)(colon - entry);
    const char *fault = NULL;
    if (image_length == 0) {
        fault = length == 0 ? "an entry is empty" : "it names no image";
    } else if (!sp_text_is_printable(entry, length)) {
        fault = "it has an unprintable character";
    }
    if (fault != NULL) {
        (void)sp_fail(&problem, SP_USAGE, "`%.*s` is not IMAGE[:MOUNT]: %s", shown(length), entry,
                      fault);
        (void)sp_hint(&problem, ENTRY_HINT);
        tell(parse, &problem);
        return;
    }
    const char *mount = colon == NULL ? NULL : colon + 1;
    size_t mount_length = colon == NULL ? 0 : length - image_length - 1;
    fault = mount == NULL ? NULL : sp_bad_mount_point(mount, mount_length);
    if (fault != NULL) {
        (void)sp_fail(&problem, SP_BAD_MOUNT_POINT, "`%.*s` cannot be a mount point: %s",
                      shown(mount_length), mount, fault);
        (void)sp_hint(&problem, "use a path of its own, for example /user-environment");
        tell(parse, &problem);
        return;
    }
    struct sp_mount_entry *found = &parse->list->entries[parse->list->count++];
    found->image = parse->free_memory;
    memcpy(parse->free_memory, entry, image_length);
    parse->free_memory[image_length] = '\0';
    parse->free_memory += image_length + 1;
    found->mount_point = NULL;
    found->label = NULL;
    if (mount != NULL) {
        found->mount_point = parse->free_memory;
        parse->free_memory += sp_path_write_normal(mount, mount_length, parse->free_memory) + 1;
    }
}

/* Tells of every entry whose mount point an earlier one has. */
static void find_clashes(struct parse *parse)
{
    const struct sp_mount_list *list = parse->list;
    for (size_t later = 0; later < list->count; later++) {
        const char *point = list->entries[later].mount_point;
        for (size_t first = 0; point != NULL && first < later; first++) {
            const char *taken = list->entries[first].mount_point;
            if (taken != NULL && strcmp(point, taken) == 0) {
                struct sp_error problem;
                (void)sp_fail(&problem, SP_MOUNT_POINT_CLASH, "two images at `%s`: `%s` and `%s`",
                              point, list->entries[first].image, list->entries[later].image);
                (void)sp_hint(&problem, "mount the second at another folder: `%s:/other`",
                              list->entries[later].image);
                tell(parse, &problem);
                break;
            }
        }
    }
}

static int check_size(const char *text, size_t length, struct sp_error *error)
{
    size_t entries = 1;
    if (length > SP_MAX_LIST_BYTES) {
        return sp_fail(error, SP_USAGE, "a mount list of %zu bytes is longer than %d", length,
                       SP_MAX_LIST_BYTES);
    }
    for (size_t index = 0; index < length; index++) {
        entries += text[index] == ',' ? 1 : 0;
    }
    if (entries > SP_MAX_IMAGES) {
        return sp_fail(error, SP_USAGE, "a mount list of %zu entries has more than %d", entries,
                       SP_MAX_IMAGES);
    }
    return 0;
}

int sp_mount_list_parse(const char *text, size_t length, struct sp_mount_list *list,
                        sp_problem_listener *listener, void *context, struct sp_error *error)
{
    struct parse parse = {.list = list, .listener = listener, .context = context, .error = error};
    struct sp_error problem;
    *list = (struct sp_mount_list){.count = 0};
    if (check_size(text, length, &problem) != 0) {
        tell(&parse, &problem);
        return -1;
    }
    /* Each entry is copied once, and its two texts end where `:` and `,` stood. */
    list->memory = malloc(length + 2);
    if (list->memory == NULL) {
        return sp_fail(error, SP_MOUNT_FAILED, "no memory for a mount list of %zu bytes", length);
    }
    parse.free_memory = list->memory;
    size_t start = 0;
    for (size_t index = 0; index <= length; index++) {
        if (index == length || text[index] == ',') {
            parse_entry(&parse, text + start, index - start);
            start = index + 1;
        }
    }
    find_clashes(&parse);
    if (parse.problems > 0) {
        sp_mount_list_free(list);
        return -1;
    }
    return 0;
}

int sp_mount_list_label(struct sp_mount_list *list, char *text, struct sp_error *error)
{
    size_t count = 0;
    for (char *rest = text; rest != NULL; count++) {
        char *label = rest;
        rest = strchr(label, ',');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        for (const char *sign = label; *sign != '\0'; sign++) {
            if (*sign <= ' ' || *sign > '~') {
                return sp_fail(error, SP_USAGE, "`%.200s` is no label", label);
            }
        }
        if (count < list->count) {
            list->entries[count].label = *label == '\0' ? NULL : label;
        }
    }
    return count == list->count
               ? 0
               : sp_fail(error, SP_USAGE, "%zu labels are not one for each of %zu images", count,
                         list->count);
}

void sp_mount_list_free(struct sp_mount_list *list)
{
    free(list->memory);
    *list = (struct sp_mount_list){.count = 0};
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

bool sp_mount_may_be_label(const char *word)
{
    return strchr("/.~", *word) == NULL && !ends_with(word, ".squashfs") &&
           !ends_with(word, ".sqfs") && !ends_with(word, ".sif");
}
