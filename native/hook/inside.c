#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"

enum { MOST_TRIES = 16, FOLDER_MODE = 0755 };

int sp_inside_open(int root, const char *path, uint64_t flags)
{
    int found = -1;
    /* EAGAIN: something above it was renamed meanwhile (openat2(2)). */
    for (int attempt = 0; attempt < MOST_TRIES; attempt++) {
        found = sp_openat2_inside(root, path, flags | O_PATH | O_CLOEXEC);
        if (found >= 0 || errno != EAGAIN) {
            break;
        }
    }
    return found;
}

int sp_inside_reopen(int found, uint64_t *size)
{
    struct stat state;
    char name[64];
    if (fstat(found, &state) != 0) {
        return -1;
    }
    if (!S_ISREG(state.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    *size = (uint64_t)state.st_size;
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", found);
    return open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

char *sp_inside_read(int root, const char *path, size_t most, size_t *length)
{
    uint64_t size = 0;
    char *text = NULL;
    int found = sp_inside_open(root, path, 0);
    int file = found < 0 ? -1 : sp_inside_reopen(found, &size);
    *length = 0;
    if (file >= 0 && size <= most) {
        text = malloc((size_t)size + 1);
    }
    while (text != NULL && *length < size) {
        ssize_t got = read(file, text + *length, (size_t)size - *length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        *length += (size_t)got;
    }
    if (text != NULL) {
        text[*length] = '\0';
    }
    if (file >= 0) {
        (void)close(file);
    }
    if (found >= 0) {
        (void)close(found);
    }
    return text;
}

/* Opens one of this process's own files below /proc; what only looks like procfs is none. */
static FILE *open_own(const char *path)
{
    struct statfs system;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || fstatfs(file, &system) != 0 || system.f_type != PROC_SUPER_MAGIC) {
        if (file >= 0) {
            (void)close(file);
        }
        return NULL;
    }
    FILE *stream = fdopen(file, "r");
    if (stream == NULL) {
        (void)close(file);
    }
    return stream;
}

long sp_inside_mount_id(int descriptor)
{
    char path[64];
    char line[256];
    long id = -1;
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
    FILE *stream = open_own(path);
    while (stream != NULL && id < 0 && fgets(line, sizeof line, stream) != NULL) {
        if (strncmp(line, "mnt_id:", strlen("mnt_id:")) == 0) {
            id = strtol(line + strlen("mnt_id:"), NULL, 10);
        }
    }
    if (stream != NULL) {
        (void)fclose(stream);
    }
    return id;
}

/* Returns whether a line of mountinfo, of proc(5), says that what is mounted there goes elsewhere:
 * one of the words between the sixth and the dash is `shared:N`. */
static bool says_shared(const char *line)
{
    const char *end = strstr(line, " - ");
    const char *found = strstr(line, " shared:");
    return end == NULL || (found != NULL && found < end);
}

bool sp_inside_is_shared(int descriptor)
{
    long id = sp_inside_mount_id(descriptor);
    FILE *stream = id < 0 ? NULL : open_own("/proc/self/mountinfo");
    char *line = NULL;
    size_t room = 0;
    bool shared = true; /* also where it cannot be told */
    while (stream != NULL && getline(&line, &room, stream) > 0) {
        if (strtol(line, NULL, 10) == id) {
            shared = says_shared(line);
            break;
        }
    }
    free(line);
    if (stream != NULL) {
        (void)fclose(stream);
    }
    return shared;
}

static int foreign(struct sp_error *error, const char *path)
{
    (void)sp_fail(error, SP_NOT_PERMITTED,
                  "`%s` would be made in a folder that is mounted into the container", path);
    return sp_hint(error, "make it there beforehand, or mount nothing around it");
}

static int missing(struct sp_error *error, const char *path)
{
    int fault = errno;
    (void)sp_fail(error, SP_MOUNT_POINT_MISSING, "cannot make `%s` in the container: %s", path,
                  strerror(fault));
    if (fault == ENOSYS) {
        return sp_hint(error, "this needs openat2 (Linux 5.6)");
    }
    return sp_hint(error, "make it in the image: `RUN mkdir -p` with that folder");
}

int sp_inside_make(int root, const char *path, struct sp_error *error)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    int folder = -1;
    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return missing(error, path);
    }
    int above = sp_inside_open(root, "/", O_DIRECTORY);
    for (size_t end = 1; end <= length && above >= 0; end++) {
        if (path[end] != '/' && path[end] != '\0') {
            continue;
        }
        memcpy(part, path, end);
        part[end] = '\0';
        folder = sp_inside_open(root, part, O_DIRECTORY);
        if (folder < 0 && errno == ENOENT) {
            const char *name = strrchr(part, '/') + 1;
            if (sp_inside_mount_id(above) != sp_inside_mount_id(root)) {
                (void)close(above);
                return foreign(error, path); /* it is not the container's own */
            }
            /* EEXIST: a link that leads nowhere, which the next step cannot open either. */
            if (mkdirat(above, name, FOLDER_MODE) == 0 || errno == EEXIST) {
                folder = sp_inside_open(root, part, O_DIRECTORY);
            }
        }
        int fault = errno;
        (void)close(above);
        errno = fault;
        above = folder;
    }
    return above >= 0 ? above : missing(error, path);
}
