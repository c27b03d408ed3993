#include "trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    OTHERS_MAY_WRITE = S_IWGRP | S_IWOTH,
    UNMAPPED_USER = 65534, /* the kernel's default for a number without a name in a namespace */
};

/* The inode number of the first user namespace is fixed (linux/proc_ns.h, PROC_USER_INIT_INO). */
static const char FIRST_USER_NAMESPACE[] = "user:[4026531837]";

static bool is_first_user_namespace(void)
{
    char name[sizeof FIRST_USER_NAMESPACE + 1];
    const ssize_t length = (ssize_t)strlen(FIRST_USER_NAMESPACE);
    ssize_t found = readlink("/proc/self/ns/user", name, sizeof name);
    /* Where it cannot be told, it is taken for the one in which rights are worth something. */
    return found < 0 ||
           (found == length && memcmp(name, FIRST_USER_NAMESPACE, (size_t)length) == 0);
}

static bool is_of_root(const struct stat *state, unsigned flags)
{
    return state->st_uid == 0 || ((flags & SP_TRUSTED_UNMAPPED) != 0 &&
                                  state->st_uid == UNMAPPED_USER && !is_first_user_namespace());
}

bool sp_trusted_state(const struct stat *state, unsigned flags)
{
    return is_of_root(state, flags) && (state->st_mode & OTHERS_MAY_WRITE) == 0;
}

static int untrusted(struct sp_error *error, const char *what, const char *why)
{
    (void)sp_fail(error, SP_NOT_PERMITTED, "`%s` is not trusted: %s", what, why);
    return sp_hint(error, "let the administrator make it: owner root, writable for root alone");
}

/* Returns 0 if only root may change what is open as `descriptor`. */
static int check(int descriptor, mode_t kind, const char *what, unsigned flags,
                 struct sp_error *error)
{
    struct stat state;
    if (fstat(descriptor, &state) != 0) {
        return untrusted(error, what, strerror(errno));
    }
    if ((state.st_mode & S_IFMT) != kind) {
        return untrusted(error, what, "it is of the wrong kind");
    }
    if (!is_of_root(&state, flags)) {
        return untrusted(error, what, "it does not belong to root");
    }
    if (!sp_trusted_state(&state, flags)) {
        return untrusted(error, what, "others than root may write to it");
    }
    return 0;
}

int sp_trusted_folder(int parent, const char *name, const char *path, unsigned flags, int *folder,
                      struct sp_error *error)
{
    *folder = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*folder < 0) {
        return errno == ENOENT ? 0 : untrusted(error, path, strerror(errno));
    }
    if (check(*folder, S_IFDIR, path, flags, error) != 0) {
        (void)close(*folder);
        *folder = -1;
        return -1;
    }
    return 0;
}

/* Reads until the end, or until there is no room; returns the length, or -1. */
static ssize_t read_whole(int descriptor, char *text, size_t room)
{
    size_t length = 0;
    while (length < room) {
        ssize_t got = read(descriptor, text + length, room - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    return (ssize_t)length;
}

static int read_file(int file, const char *path, size_t most, char **text, size_t *length,
                     struct sp_error *error)
{
    *text = malloc(most + 2);
    if (*text == NULL) {
        return sp_fail(error, SP_MOUNT_FAILED, "no memory for `%s`", path);
    }
    ssize_t found = read_whole(file, *text, most + 1);
    if (found < 0) {
        int fault = errno;
        free(*text);
        *text = NULL;
        return untrusted(error, path, strerror(fault));
    }
    *length = (size_t)found;
    (*text)[*length] = '\0';
    return 0;
}

int sp_trusted_read(int folder, const char *name, const char *path, size_t most, unsigned flags,
                    char **text, size_t *length, struct sp_error *error)
{
    *text = NULL;
    *length = 0;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return errno == ENOENT ? 0 : untrusted(error, path, strerror(errno));
    }
    int result = check(file, S_IFREG, path, flags, error);
    result = result == 0 ? read_file(file, path, most, text, length, error) : result;
    (void)close(file);
    return result;
}
