#include "mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "text.h"

enum {
    WALK_FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    MOUNT_FLAGS = MS_RDONLY | MS_NOSUID | MS_NODEV,
    NAME_BYTES = 256,
    DESCRIPTOR_PATH_BYTES = 40,
    ENTRIES_BYTES = 1024,
};

int sp_mount_namespace_enter(struct sp_error *error)
{
    if (unshare(CLONE_NEWNS) != 0) {
        return sp_fail(error, errno == EPERM ? SP_NOT_PERMITTED : SP_MOUNT_FAILED,
                       "cannot make a mount namespace: %s", strerror(errno));
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot make the mount namespace private: %s",
                       strerror(errno));
    }
    return 0;
}

/* Opens a normal path part by part; the older way of openat2(2). */
static int walk(const char *path)
{
    int folder = open("/", WALK_FLAGS);
    while (folder >= 0 && *path != '\0') {
        char name[NAME_BYTES];
        path += strspn(path, "/");
        size_t length = strcspn(path, "/");
        if (length == 0) {
            break;
        }
        if (length >= sizeof name) {
            (void)close(folder);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, path, length);
        name[length] = '\0';
        path += length;
        int next = openat(folder, name, WALK_FLAGS);
        int fault = errno;
        (void)close(folder);
        errno = fault;
        folder = next;
    }
    return folder;
}

int sp_mount_root(const char *mount_point, unsigned flags)
{
    if ((flags & SP_OLD_KERNEL) == 0) {
        int point = sp_openat2_no_links(mount_point, WALK_FLAGS);
        /* EPERM: the list of a container's permitted calls may be older than the call. */
        if (point >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return point;
        }
    }
    return walk(mount_point);
}

/* Returns whether one of the entries that getdents64(2) wrote is more than `.` and `..`. */
static bool has_more_than_dots(const char *entries, size_t length)
{
    struct dirent64 entry;
    for (size_t at = 0; at < length; at += entry.d_reclen) {
        const char *name = entries + at + offsetof(struct dirent64, d_name);
        memcpy(&entry, entries + at, offsetof(struct dirent64, d_name));
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            return true;
        }
    }
    return false;
}

/* By the system call: opendir(3) has memory for a block of the file system, which must be found. */
int sp_folder_is_empty(int folder)
{
    char entries[ENTRIES_BYTES];
    int result = 1;
    long length = 1;
    int opened = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) {
        return -1;
    }
    while (length > 0 && result == 1) {
        length = syscall(SYS_getdents64, opened, entries, sizeof entries);
        if (length < 0) {
            result = -1;
        } else if (has_more_than_dots(entries, (size_t)length)) {
            result = 0;
        }
    }
    int fault = errno;
    (void)close(opened);
    errno = fault;
    return result;
}

int sp_mount_point_open(const char *path, unsigned flags, int *point, struct sp_error *error)
{
    *point = sp_mount_root(path, flags);
    if (*point < 0 && (errno == ENOENT || errno == EACCES || errno == ENAMETOOLONG)) {
        (void)sp_fail(error, SP_MOUNT_POINT_MISSING, "the mount point `%s` cannot be found: %s",
                      path, strerror(errno));
        return sp_hint(error, "let the administrator make it: mkdir -p %s", path);
    }
    if (*point < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        (void)sp_fail(error, SP_BAD_MOUNT_POINT,
                      "`%s` cannot be a mount point: a part of it is a link or not a folder", path);
        return sp_hint(error, "name the folder by its real path");
    }
    if (*point < 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot open mount point `%s`: %s", path,
                       strerror(errno));
    }
    int empty = sp_folder_is_empty(*point);
    if (empty == 1) {
        return 0;
    }
    if (empty < 0) {
        (void)sp_fail(error, SP_MOUNT_POINT_OCCUPIED, "cannot look into mount point `%s`: %s", path,
                      strerror(errno));
    } else {
        (void)sp_fail(error, SP_MOUNT_POINT_OCCUPIED,
                      "the mount point `%s` is not empty: files or another mount are there", path);
        (void)sp_hint(error, "give another mount point: IMAGE:MOUNT");
    }
    (void)close(*point);
    *point = -1;
    return -1;
}

/* What is mounted: `parameter` is `source` for a device, `lowerdir` for an overlay. An image may
 * not redirect lookups in an overlay to other folders, whatever the default of the kernel is. */
struct filesystem {
    const char *kind;
    const char *parameter;
    const char *value;
    bool no_redirects;
};

/* Reads what the kernel says about a failure (fsopen(2)) into `text`; "" if nothing. */
static void read_complaint(int context, char *text, size_t room)
{
    ssize_t length = read(context, text, room - 1);
    text[length > 0 ? length : 0] = '\0';
}

/* Returns a mount that is nowhere yet, or -1 with errno. */
static int make_detached(const struct filesystem *filesystem, char *complaint, size_t room)
{
    int made = -1;
    int context = sp_fsopen(filesystem->kind);
    if (context < 0) {
        return -1;
    }
    if (sp_fsconfig(context, SP_FSCONFIG_SET_STRING, filesystem->parameter, filesystem->value) ==
            0 &&
        (!filesystem->no_redirects ||
         sp_fsconfig(context, SP_FSCONFIG_SET_STRING, "redirect_dir", "nofollow") == 0) &&
        sp_fsconfig(context, SP_FSCONFIG_SET_FLAG, "ro", NULL) == 0 &&
        sp_fsconfig(context, SP_FSCONFIG_CMD_CREATE, NULL, NULL) == 0) {
        made = sp_fsmount(context);
    }
    int fault = errno;
    if (made < 0) {
        read_complaint(context, complaint, room);
    }
    (void)close(context);
    errno = fault;
    return made;
}

/* Mounts in one call; needs /proc, since the target is given by descriptor. */
static int mount_as_before(const struct filesystem *filesystem, int point)
{
    char target[DESCRIPTOR_PATH_BYTES];
    char options[SP_MESSAGE_BYTES];
    bool by_source = strcmp(filesystem->parameter, "source") == 0;
    sp_text_numbered(target, sizeof target, "/proc/self/fd/", (unsigned long)point);
    int length =
        snprintf(options, sizeof options, "%s=%s%s", filesystem->parameter, filesystem->value,
                 filesystem->no_redirects ? ",redirect_dir=nofollow" : "");
    if (length < 0 || (size_t)length >= sizeof options) {
        errno = E2BIG;
        return -1;
    }
    return mount(by_source ? filesystem->value : "stackproof", target, filesystem->kind,
                 MOUNT_FLAGS, by_source ? NULL : options);
}

/* Mounts on `point`; `*root` is the root of the mount, or -1 where only the old call was there. */
static int mount_on(const struct filesystem *filesystem, int point, unsigned flags, int *root,
                    char *complaint, size_t room)
{
    *root = -1;
    complaint[0] = '\0';
    if ((flags & SP_OLD_KERNEL) == 0) {
        int made = make_detached(filesystem, complaint, room);
        if (made >= 0) {
            if (sp_move_mount(made, point) == 0) {
                *root = made;
                return 0;
            }
            int fault = errno;
            (void)close(made);
            errno = fault;
            return -1;
        }
        if (errno != ENOSYS) {
            return -1;
        }
    }
    return mount_as_before(filesystem, point);
}

static int mount_failed(struct sp_error *error, const char *what, const char *complaint, int fault)
{
    (void)sp_fail(error, SP_MOUNT_FAILED, "cannot mount %s: %s%s%.200s", what, strerror(fault),
                  complaint[0] == '\0' ? "" : ": ", complaint);
    if (fault == ENODEV) {
        return sp_hint(error, "this kernel lacks the file system: load its module");
    }
    return -1;
}

int sp_mount_loop(const struct sp_loop *loop, const char *image, int point, unsigned flags,
                  int *root, struct sp_error *error)
{
    const struct filesystem squashfs = {"squashfs", "source", loop->name, false};
    char complaint[SP_HINT_BYTES];
    char what[SP_MESSAGE_BYTES / 2];
    if (mount_on(&squashfs, point, flags, root, complaint, sizeof complaint) == 0) {
        return 0;
    }
    int fault = errno;
    (void)snprintf(what, sizeof what, "`%s` by `%s`", image, loop->name);
    (void)mount_failed(error, what, complaint, fault);
    if (fault == EINVAL || fault == EIO) {
        (void)sp_hint(error, "the image is damaged or uses a compression that this kernel lacks");
    }
    return -1;
}

/* Writes `lowerdir` for the roots; false if there is no room. Paths of descriptors need no escape.
 */
static bool write_layers(const int *roots, size_t count, char *text, size_t room)
{
    size_t used = 0;
    for (size_t index = 0; index < count; index++) {
        int length = snprintf(text + used, room - used, "%s/proc/self/fd/%d", index == 0 ? "" : ":",
                              roots[index]);
        if (length < 0 || (size_t)length >= room - used) {
            return false;
        }
        used += (size_t)length;
    }
    return true;
}

int sp_mount_overlay(const int *roots, size_t count, int point, const char *mount_point,
                     unsigned flags, struct sp_error *error)
{
    char layers[SP_HINT_BYTES]; /* fsconfig(2) takes a text of at most 256 bytes */
    char complaint[SP_HINT_BYTES];
    char what[SP_MESSAGE_BYTES / 2];
    int root = -1;
    if (!write_layers(roots, count, layers, sizeof layers)) {
        return sp_fail(error, SP_USAGE, "%zu images over `%s` are too many", count - 1,
                       mount_point);
    }
    const struct filesystem overlay = {"overlay", "lowerdir", layers, true};
    if (mount_on(&overlay, point, flags, &root, complaint, sizeof complaint) == 0) {
        if (root >= 0) {
            (void)close(root);
        }
        return 0;
    }
    int fault = errno;
    (void)snprintf(what, sizeof what, "the overlay at `%s`", mount_point);
    (void)mount_failed(error, what, complaint, fault);
    if (fault == EPERM) {
        (void)sp_hint(error, "overlays without privileges need Linux 5.11; mount the image at a "
                             "place of its own instead");
    }
    return -1;
}
