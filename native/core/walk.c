#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"
#include "loop.h"

enum { MOST_LINKS = 40 }; /* as the kernel: path_resolution(7) */

/* What is still to be walked, and where. */
struct walk {
    int place;
    size_t links;
    char rest[PATH_MAX];
};

static int move_to(struct walk *walk, int place)
{
    if (place < 0) {
        return -1;
    }
    (void)close(walk->place);
    walk->place = place;
    return 0;
}

/* Puts the text of a link before the rest; from the root folder where it is absolute. */
static int follow(struct walk *walk, int link)
{
    char text[PATH_MAX];
    struct statfs system;
    if (fstatfs(link, &system) != 0) {
        return -1;
    }
    if (system.f_type == PROC_SUPER_MAGIC || ++walk->links > MOST_LINKS) {
        errno = ELOOP;
        return -1;
    }
    ssize_t length = readlinkat(link, "", text, sizeof text - 1);
    size_t rest = strlen(walk->rest);
    if (length < 0) {
        return -1;
    }
    if ((size_t)length + rest + 2 > sizeof walk->rest) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memmove(walk->rest + length + 1, walk->rest, rest + 1);
    memcpy(walk->rest, text, (size_t)length);
    walk->rest[length] = '/';
    return text[0] != '/' ? 0 : move_to(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Takes the first part of the rest; false where there is none. */
static bool take_part(struct walk *walk, char *part)
{
    size_t skipped = strspn(walk->rest, "/");
    size_t length = strcspn(walk->rest + skipped, "/");
    memcpy(part, walk->rest + skipped, length);
    part[length] = '\0';
    memmove(walk->rest, walk->rest + skipped + length,
            strlen(walk->rest + skipped + length) + 1);
    return length > 0;
}

/* The same by hand, for Linux before 5.6: part by part, and in procfs no link at all. */
static int walk_by_hand(const char *path)
{
    struct walk walk = {.place = -1};
    char part[PATH_MAX];
    if (strlen(path) >= sizeof walk.rest) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(walk.rest, path, strlen(path) + 1);
    walk.place = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk.place < 0 || path[0] == '\0') {
        errno = path[0] == '\0' ? ENOENT : errno;
        goto failed;
    }
    while (take_part(&walk, part)) {
        struct stat state;
        int next = openat(walk.place, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 || fstat(next, &state) != 0) {
            goto failed;
        }
        if (!S_ISLNK(state.st_mode)) {
            (void)move_to(&walk, next);
            continue;
        }
        int result = follow(&walk, next);
        int fault = errno;
        (void)close(next);
        errno = fault;
        if (result != 0) {
            goto failed;
        }
    }
    return walk.place;
failed:
    if (walk.place >= 0) {
        int fault = errno;
        (void)close(walk.place);
        errno = fault;
    }
    return -1;
}

int sp_walk(const char *path, unsigned flags)
{
    if ((flags & SP_OLD_KERNEL) == 0) {
        int found = sp_openat2_no_magic(path, O_PATH | O_CLOEXEC);
        if (found >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return found;
        }
    }
    return walk_by_hand(path);
}
