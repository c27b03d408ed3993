#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "text.h"
#include "walk.h"

/* _LINUX_CAPABILITY_VERSION_3 of linux/capability.h */
enum { CAPABILITY_VERSION = 0x20080522 };

/* The sets of a thread's capabilities, as capget(2) and capset(2) take them: two halves of each. */
struct capabilities {
    struct {
        uint32_t effective;
        uint32_t permitted;
        uint32_t inheritable;
    } halves[2];
};

/* What a thread was before it took on another identity. */
struct former {
    bool had_capabilities;
    struct capabilities capabilities;
    uid_t user;
    gid_t group;
    int group_count;
    gid_t *groups;
};

static int cannot_open(struct sp_error *error, const char *path, int fault)
{
    if (fault == ELOOP) {
        (void)sp_fail(error, SP_IMAGE_UNREADABLE,
                      "cannot open image `%s`: it leads through too many links, or one of /proc",
                      path);
        return sp_hint(error, "name the image by its own path");
    }
    enum sp_reason reason =
        fault == ENOENT || fault == ENOTDIR ? SP_IMAGE_MISSING : SP_IMAGE_UNREADABLE;
    return sp_fail(error, reason, "cannot open image `%s`: %s", path, strerror(fault));
}

/* Looks first and opens then: opening a device or a FIFO would already have an effect. The second
 * step asks for the right to read just as the first path would. */
static int open_regular(const char *path, struct sp_image *image, struct sp_error *error)
{
    struct stat state;
    char name[64];
    struct statfs system;
    int found = sp_walk(path, 0);
    if (found < 0) {
        return cannot_open(error, path, errno);
    }
    if (fstat(found, &state) != 0 || fstatfs(found, &system) != 0) {
        int fault = errno;
        (void)close(found);
        return cannot_open(error, path, fault);
    }
    if (!S_ISREG(state.st_mode)) {
        (void)close(found);
        return sp_fail(error, SP_IMAGE_NOT_SQUASHFS, "`%s` is not a regular file", path);
    }
    sp_text_numbered(name, sizeof name, "/proc/self/fd/", (unsigned long)found);
    image->descriptor = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int fault = errno;
    (void)close(found);
    if (image->descriptor < 0) {
        return cannot_open(error, path, fault);
    }
    if (fstat(image->descriptor, &state) != 0 || !S_ISREG(state.st_mode)) {
        sp_image_close(image);
        return sp_fail(error, SP_IMAGE_UNREADABLE, "`%s` changed while it was opened", path);
    }
    image->size = (uint64_t)state.st_size;
    image->device = state.st_dev;
    image->inode = state.st_ino;
    image->filesystem = (uint64_t)(unsigned long)system.f_type;
    return 0;
}

/* glibc changes the groups of all threads of a process; the system call only those of one. */
static int set_groups(size_t count, const gid_t *groups)
{
    return (int)syscall(SYS_setgroups, count, groups);
}

/* setfsuid(2) reports no failure; a second call with no id tells what is in effect. */
static bool filesystem_ids_are(uid_t user, gid_t group)
{
    return setfsuid((uid_t)-1) == (int)user && setfsgid((gid_t)-1) == (int)group;
}

/* libcap would change all threads of a process; the system calls only this one. */
static int get_capabilities(struct capabilities *capabilities)
{
    struct {
        uint32_t version;
        int process;
    } header = {.version = CAPABILITY_VERSION};
    return (int)syscall(SYS_capget, &header, capabilities);
}

static int set_capabilities(const struct capabilities *capabilities)
{
    struct {
        uint32_t version;
        int process;
    } header = {.version = CAPABILITY_VERSION};
    return (int)syscall(SYS_capset, &header, capabilities);
}

/* Takes every capability out of effect. The ids alone leave root's right to look into others'
 * processes (CAP_SYS_PTRACE), and others that are not about files. */
static int drop_effective(struct former *former)
{
    struct capabilities now;
    if (get_capabilities(&former->capabilities) != 0) {
        return -1;
    }
    former->had_capabilities = true;
    now = former->capabilities;
    now.halves[0].effective = now.halves[1].effective = 0;
    if (set_capabilities(&now) != 0 || get_capabilities(&now) != 0 ||
        now.halves[0].effective != 0 || now.halves[1].effective != 0) {
        return -1;
    }
    return 0;
}

static int take_back(const struct former *former, struct sp_error *error);

static int take_on(const struct sp_identity *as, struct former *former, struct sp_error *error)
{
    former->user = geteuid();
    former->group = getegid();
    former->group_count = getgroups(0, NULL);
    former->groups = former->group_count < 0 || former->group_count > NGROUPS_MAX
                         ? NULL
                         : malloc(sizeof(gid_t) * (size_t)(former->group_count + 1));
    if (former->groups == NULL || getgroups(former->group_count, former->groups) < 0) {
        free(former->groups);
        (void)sp_fail(error, SP_MOUNT_FAILED, "cannot read the groups of this process");
        return -1;
    }
    if (set_groups(as->group_count, as->groups) != 0) {
        (void)sp_fail(error, SP_NOT_PERMITTED, "cannot take on the groups of user %lu: %s",
                      (unsigned long)as->user, strerror(errno));
        free(former->groups);
        return -1;
    }
    (void)setfsgid(as->group);
    (void)setfsuid(as->user);
    if (as->user != 0 && drop_effective(former) != 0) {
        if (take_back(former, error) == 0) {
            (void)sp_fail(error, SP_NOT_PERMITTED, "cannot give up the rights of root for `%lu`",
                          (unsigned long)as->user);
        }
        return -1;
    }
    return 0;
}

static int take_back(const struct former *former, struct sp_error *error)
{
    bool restored = !former->had_capabilities || set_capabilities(&former->capabilities) == 0;
    (void)setfsuid(former->user);
    (void)setfsgid(former->group);
    int result = set_groups((size_t)former->group_count, former->groups);
    free(former->groups);
    if (!restored || result != 0 || !filesystem_ids_are(former->user, former->group)) {
        return sp_fail(error, SP_NOT_PERMITTED, "cannot return to the ids of this process");
    }
    return 0;
}

static int open_checked(const char *path, struct sp_image *image, struct sp_error *error)
{
    if (open_regular(path, image, error) != 0) {
        return -1;
    }
    int result =
        sp_superblock_read(image->descriptor, image->size, path, &image->superblock, error);
    if (result != 0) {
        sp_image_close(image);
    }
    return result;
}

int sp_image_open(const char *path, const struct sp_identity *as, struct sp_image *image,
                  struct sp_error *error)
{
    struct former former = {.groups = NULL};
    *image = (struct sp_image){.descriptor = -1};
    if (as == NULL) {
        return open_checked(path, image, error);
    }
    if (take_on(as, &former, error) != 0) {
        return -1;
    }
    int result = filesystem_ids_are(as->user, as->group)
                     ? open_checked(path, image, error)
                     : sp_fail(error, SP_NOT_PERMITTED, "cannot take on the rights of user %lu",
                               (unsigned long)as->user);
    if (take_back(&former, error) != 0) {
        sp_image_close(image);
        return -1;
    }
    return result;
}

void sp_image_close(struct sp_image *image)
{
    if (image->descriptor >= 0) {
        (void)close(image->descriptor);
    }
    image->descriptor = -1;
}
