#include "command.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

enum { CANNOT_EXECUTE = 126, NOT_FOUND = 127 };

static int no_memory(struct sp_error *error)
{
    return sp_fail(error, SP_MOUNT_FAILED, "no memory for the environment of the command");
}

/* Sets one variable for the first that is to be passed on; 0 when there is none left. */
static int forward_one(void)
{
    const size_t prefix = strlen(FORWARD);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strncmp(*entry, FORWARD, prefix) == 0 ? strchr(*entry, '=') : NULL;
        if (equals == NULL) {
            continue;
        }
        char *name = strndup(*entry, (size_t)(equals - *entry));
        char *value = strdup(equals + 1);
        int result = -1;
        if (name != NULL && value != NULL && unsetenv(name) == 0) {
            result = name[prefix] == '\0' || setenv(name + prefix, value, 1) == 0 ? 1 : -1;
        }
        free(name);
        free(value);
        return result;
    }
    return 0;
}

/* Writes `path` as absolute: without `.`, `..` and doubled slashes, links not followed. Has room
 * for `folder`, a slash, `path` and an end. */
static void write_absolute(const char *folder, const char *path, char *target)
{
    size_t used = 0;
    const char *const texts[] = {path[0] == '/' ? "" : folder, path};
    for (size_t index = 0; index < 2; index++) {
        const char *text = texts[index];
        while (*text != '\0') {
            text += strspn(text, "/");
            size_t length = strcspn(text, "/");
            if (length == 2 && memcmp(text, "..", 2) == 0) {
                bool slash = false;
                while (used > 0 && !slash) {
                    used--;
                    slash = target[used] == '/';
                }
            } else if (length > 0 && !(length == 1 && *text == '.')) {
                target[used++] = '/';
                memcpy(target + used, text, length);
                used += length;
            }
            text += length;
        }
    }
    if (used == 0) {
        target[used++] = '/';
    }
    target[used] = '\0';
}

/* Appends `separator` and `text`; false without memory. */
static bool append(char **whole, const char *separator, const char *text)
{
    size_t room = strlen(*whole) + strlen(separator) + strlen(text) + 1;
    char *longer = realloc(*whole, room);
    if (longer == NULL) {
        return false;
    }
    sp_text_append(longer, room, separator);
    sp_text_append(longer, room, text);
    *whole = longer;
    return true;
}

static bool append_step(char **whole, const struct sp_step *step, const char *folder)
{
    char *path = malloc(strlen(folder) + strlen(step->image_path) + 3);
    if (path == NULL) {
        return false;
    }
    write_absolute(folder, step->image_path, path);
    bool first = (*whole)[strlen(MARKER "=")] == '\0';
    bool done = append(whole, first ? "" : ",", path) &&
                append(whole, ":", step->mount_point);
    free(path);
    return done;
}

int command_environment(const struct sp_plan *plan, const char *folder, struct sp_error *error)
{
    int found = forward_one();
    while (found > 0) {
        found = forward_one();
    }
    const char *outer = getenv(MARKER);
    char *whole = found < 0 ? NULL : strdup(MARKER "=");
    bool done = whole != NULL && append(&whole, "", outer == NULL ? "" : outer);
    for (size_t index = 0; done && index < plan->count; index++) {
        /* An overlay is not named: it has the mount point of an image, and a list has each once. */
        done = plan->steps[index].overlay || append_step(&whole, &plan->steps[index], folder);
    }
    if (done && putenv(whole) == 0) { /* what is put there stays the environment's */
        return 0;
    }
    free(whole);
    return no_memory(error);
}

int command_become(char **command, int *exit_code, struct sp_error *error)
{
    (void)execvp(command[0], command);
    int fault = errno;
    *exit_code = fault == ENOENT || fault == ENOTDIR ? NOT_FOUND : CANNOT_EXECUTE;
    return sp_fail(error, SP_COMMAND_NOT_FOUND, "cannot run `%s`: %s", command[0], strerror(fault));
}
