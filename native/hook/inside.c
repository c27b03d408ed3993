#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
