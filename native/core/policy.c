#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mountlist.h"
#include "path.h"
#include "text.h"
#include "trusted.h"

static const char *const built_in_mount_points[] = {"/user-environment", "/user-tools"};

enum { DEFAULT_IMAGES = 64, DEFAULT_MEMORY_MIB = 256, DEFAULT_LOOPS = 128, MOST = 1000000 };

static int bad_line(struct sp_error *error, const char *path, size_t line, const char *why)
{
    (void)sp_fail(error, SP_INVALID_VALUE, "`%s` line %zu: %s", path, line, why);
    return sp_hint(error, "see stackproof-mount(8); until it is right, nothing is mounted");
}

static char *trimmed(char *text)
{
    size_t length = 0;
    text += strspn(text, " \t\r");
    length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        length--;
    }
    text[length] = '\0';
    return text;
}

/* Makes an absolute path normal in place; false where it is none. */
static bool make_normal(char *path)
{
    size_t length = strlen(path);
    if (path[0] != '/' || sp_path_has_dots(path, length)) {
        return false;
    }
    (void)sp_path_write_normal(path, length, path);
    return true;
}

static bool parse_user(const char *text, uid_t *user)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false; /* strtoull would take signs and spaces */
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value >= (uid_t)-1) {
        return false;
    }
    *user = (uid_t)value;
    return true;
}

static bool parse_number(const char *text, int base, unsigned long most, unsigned long *number)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false; /* strtoul would take signs and spaces */
    }
    errno = 0;
    *number = strtoul(text, &end, base);
    return errno == 0 && *end == '\0' && *number <= most;
}

static const char *take_limit(unsigned *limit, const char *value)
{
    unsigned long number = 0;
    if (!parse_number(value, 10, MOST, &number) || number == 0) {
        return "it is not a number from 1 to 1000000";
    }
    *limit = (unsigned)number;
    return NULL;
}

static const char *take_filesystem(struct sp_policy *policy, const char *value)
{
    unsigned long number = 0;
    if (policy->filesystem_count == SP_POLICY_ROWS) {
        return "there are too many file systems";
    }
    if (!parse_number(value, 0, UINT32_MAX, &number)) {
        return "it is not the number of a kind of file system, such as 0x1234";
    }
    if (number == FUSE_SUPER_MAGIC || number == PROC_SUPER_MAGIC) {
        return "what lies there is what a user's program says";
    }
    policy->filesystems[policy->filesystem_count++] = number;
    return NULL;
}

/* Takes one `key = value`; returns what is wrong with it, or NULL. */
static const char *take(struct sp_policy *policy, const char *key, char *value)
{
    if (strcmp(key, "mount-point") == 0) {
        const char *fault = sp_bad_mount_point(value, strlen(value));
        if (fault != NULL || !make_normal(value)) {
            return fault != NULL ? fault : "it is not absolute";
        }
        if (policy->mount_point_count == SP_POLICY_ROWS) {
            return "there are too many mount points";
        }
        policy->mount_points[policy->mount_point_count++] = value;
        return NULL;
    }
    if (strcmp(key, "image-folder") == 0) {
        if (!make_normal(value)) {
            return "it is not an absolute path without `.` and `..`";
        }
        if (policy->image_folder_count == SP_POLICY_ROWS) {
            return "there are too many folders";
        }
        policy->image_folders[policy->image_folder_count++] = value;
        return NULL;
    }
    if (strcmp(key, "image-owner") == 0) {
        if (policy->image_owner_count == SP_POLICY_ROWS) {
            return "there are too many owners";
        }
        if (!parse_user(value, &policy->image_owners[policy->image_owner_count])) {
            return "it is not the number of a user";
        }
        policy->image_owner_count++;
        return NULL;
    }
    if (strcmp(key, "image-filesystem") == 0) {
        return take_filesystem(policy, value);
    }
    if (strcmp(key, "images-per-command") == 0) {
        return take_limit(&policy->images_per_command, value);
    }
    if (strcmp(key, "image-memory") == 0) {
        return take_limit(&policy->image_memory_mib, value);
    }
    if (strcmp(key, "loop-devices-per-user") == 0) {
        return take_limit(&policy->loops_per_user, value);
    }
    if (strcmp(key, "unprivileged") == 0) {
        policy->unprivileged = strcmp(value, "yes") == 0;
        return policy->unprivileged || strcmp(value, "no") == 0 ? NULL : "it is not `yes` or `no`";
    }
    return "this key is not known";
}

static int parse_line(struct sp_policy *policy, char *line, size_t number, const char *path,
                      struct sp_error *error)
{
    line[strcspn(line, "#")] = '\0';
    line = trimmed(line);
    if (line[0] == '\0') {
        return 0;
    }
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return bad_line(error, path, number, "it is not KEY = VALUE");
    }
    *equals = '\0';
    const char *fault = take(policy, trimmed(line), trimmed(equals + 1));
    return fault == NULL ? 0 : bad_line(error, path, number, fault);
}

static void use_defaults(struct sp_policy *policy)
{
    *policy = (struct sp_policy){
        .unprivileged = true,
        .images_per_command = DEFAULT_IMAGES,
        .image_memory_mib = DEFAULT_MEMORY_MIB,
        .loops_per_user = DEFAULT_LOOPS,
    };
}

static void use_built_in(struct sp_policy *policy)
{
    use_defaults(policy);
    policy->mount_point_count = sizeof built_in_mount_points / sizeof built_in_mount_points[0];
    for (size_t index = 0; index < policy->mount_point_count; index++) {
        policy->mount_points[index] = built_in_mount_points[index];
    }
}

int sp_policy_parse(const char *text, size_t length, const char *path, struct sp_policy *policy,
                    struct sp_error *error)
{
    use_defaults(policy);
    if (length > SP_POLICY_BYTES || memchr(text, '\0', length) != NULL) {
        return sp_fail(error, SP_INVALID_VALUE, "`%s` is not a text of at most %d bytes", path,
                       SP_POLICY_BYTES);
    }
    policy->memory = malloc(length + 1);
    if (policy->memory == NULL) {
        return sp_fail(error, SP_MOUNT_FAILED, "no memory for `%s`", path);
    }
    memcpy(policy->memory, text, length);
    policy->memory[length] = '\0';
    char *rest = policy->memory;
    for (size_t number = 1; rest != NULL; number++) {
        char *line = rest;
        rest = strchr(line, '\n');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        if (parse_line(policy, line, number, path, error) != 0) {
            sp_policy_free(policy);
            return -1;
        }
    }
    return 0;
}

void sp_policy_free(struct sp_policy *policy)
{
    free(policy->memory);
    *policy = (struct sp_policy){.unprivileged = false};
}

int sp_policy_load(const char *folder, struct sp_policy *policy, struct sp_error *error)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t length = 0;
    int parent = -1;
    *policy = (struct sp_policy){.unprivileged = false};
    path[0] = '\0';
    sp_text_append(path, sizeof path, folder);
    sp_text_append(path, sizeof path, "/" SP_POLICY_NAME);
    if (sp_trusted_folder(AT_FDCWD, folder, folder, 0, &parent, error) != 0) {
        return -1;
    }
    int result = 0;
    if (parent >= 0) {
        result = sp_trusted_read(parent, SP_POLICY_NAME, path, SP_POLICY_BYTES, 0, &text, &length,
                                 error);
        (void)close(parent);
    }
    if (result == 0 && text != NULL) {
        result = sp_policy_parse(text, length, path, policy, error);
    } else if (result == 0) {
        use_built_in(policy);
    }
    free(text);
    return result;
}
