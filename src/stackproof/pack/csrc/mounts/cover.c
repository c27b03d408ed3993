/* A folder that this machine does not have, made in a private copy of the folder around it. */
#include "mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTED_BYTES = 32768, FOLDER_MODE = 0755, FILE_MODE = 0600 };

/* As getdents64(2) gives them. */
struct listed {
    uint64_t number;
    int64_t next;
    uint16_t bytes;
    uint8_t kind;
    char name[];
};

static const char *const ROOM = "mode=0755,size=4m";

static int exists(const char *path)
{
    struct stat state;
    return call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&state, 0) == 0;
}

/* Let an empty folder show an entry of another one: a link, or a mount of what it is. */
static void show(const char *target, const char *source)
{
    const char *link = target_of(source);
    if (link[0] != '\0') {
        call(SYS_symlinkat, (long)link, AT_FDCWD, (long)target, 0);
        return;
    }
    struct stat state;
    if (call(SYS_newfstatat, AT_FDCWD, (long)source, (long)&state, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    if (S_ISDIR(state.st_mode)) {
        call(SYS_mkdirat, AT_FDCWD, (long)target, FOLDER_MODE, 0);
    } else {
        long file = call(SYS_openat, AT_FDCWD, (long)target, O_CREAT | O_WRONLY, FILE_MODE);
        call(SYS_close, file, 0, 0, 0);
    }
    /* A dead network mount must not stop everything else. */
    call_with_five(SYS_mount, (long)source, (long)target, 0, MS_BIND | MS_REC, 0);
}

/* Let the folder that paths without a slash begin at show all that `source` shows. */
static void show_all(const char *source)
{
    long file = open_at(source, O_RDONLY | O_DIRECTORY);
    char *list = room(LISTED_BYTES);
    for (;;) {
        long count = call(SYS_getdents64, file, (long)list, LISTED_BYTES, 0);
        if (count <= 0) {
            break;
        }
        for (long at = 0; at < count;) {
            const void *here = list + at;
            const struct listed *one = here;
            const char *name = one->name;
            size_t before = used;
            if (!(name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))) {
                show(name, joined(source, "/", name));
            }
            used = before;
            at += one->bytes;
        }
    }
    call(SYS_close, file, 0, 0, 0);
}

/* Make the folders of a path, from the working folder on; `path` is left as it was. */
static void make_parts(char *path)
{
    for (char *at = path;; at++) {
        if (*at != '/' && *at != '\0') {
            continue;
        }
        char end = *at;
        *at = '\0';
        call(SYS_mkdirat, AT_FDCWD, (long)path, FOLDER_MODE, 0);
        *at = end;
        if (end == '\0') {
            return;
        }
    }
}

/* Make a new root that shows all of the old one and has the folder, and go into it. */
static void make_in_root(char *path)
{
    /* What is mounted on the root is not seen through it, but it is reached as its `..`. */
    mount_at("stackproof", "/", "tmpfs", MS_NOSUID | MS_NODEV, ROOM);
    long file = open_at("/..", O_PATH | O_DIRECTORY);
    call(SYS_fchdir, file, 0, 0, 0);
    show_all("/");
    make_parts(path + 1);
    /* Where the old root is no mount, only chroot(2) is left; it keeps from making namespaces. */
    if (call(SYS_pivot_root, (long)".", (long)".", 0, 0) == 0) {
        call(SYS_umount2, (long)".", MNT_DETACH, 0, 0);
        call(SYS_chdir, (long)"/", 0, 0, 0);
    } else if (call(SYS_chroot, (long)".", 0, 0, 0) != 0) {
        stop("a folder cannot be made for this program alone: ", path, "make it, empty");
    }
    mount_at(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
    call(SYS_close, file, 0, 0, 0);
}

static void make_in(char *path, char *parent)
{
    if (call(SYS_faccessat, AT_FDCWD, (long)parent, W_OK, 0) == 0) {
        /* What the program writes there would be lost with a copy. */
        stop("there is no folder ", path, "make it, empty");
    }
    long old = open_at(parent, O_PATH | O_DIRECTORY);
    mount_at("stackproof", parent, "tmpfs", MS_NOSUID | MS_NODEV, ROOM);
    call(SYS_chdir, (long)parent, 0, 0, 0);
    show_all(joined("/proc/self/fd/", text_of((unsigned long)old), ""));
    make_parts(path + length(parent) + 1);
    mount_at(NULL, parent, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
    call(SYS_close, old, 0, 0, 0);
}

void make_folder(const char *path)
{
    if (exists(path)) {
        return;
    }
    char *parent = joined(path, "", "");
    while (!exists(parent)) {
        size_t last = length(parent);
        while (parent[last] != '/') {
            last--;
        }
        parent[last] = '\0';
        if (last == 0) {
            make_in_root(joined(path, "", ""));
            return;
        }
    }
    make_in(joined(path, "", ""), parent);
}
