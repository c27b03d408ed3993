#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALL_FSOPEN = 430, CALL_FSCONFIG = 431, CALL_FSMOUNT = 432, CALL_MOVE_MOUNT = 429 };
enum { CALL_OPENAT2 = 437, CALL_OPEN_TREE = 428, CALL_MOUNT_SETATTR = 442 };
enum { CALL_CLOSE_RANGE = 436 };

struct open_how_of_linux {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

struct mount_attr_of_linux {
    uint64_t set;
    uint64_t clear;
    uint64_t propagation;
    uint64_t user_namespace;
};

int sp_openat2_no_links(const char *path, uint64_t flags)
{
    struct open_how_of_linux how = {
        .flags = flags,
        .resolve = SP_RESOLVE_NO_SYMLINKS | SP_RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(CALL_OPENAT2, AT_FDCWD, path, &how, sizeof how);
}

int sp_openat2_no_magic(const char *path, uint64_t flags)
{
    struct open_how_of_linux how = {.flags = flags, .resolve = SP_RESOLVE_NO_MAGICLINKS};
    return (int)syscall(CALL_OPENAT2, AT_FDCWD, path, &how, sizeof how);
}

int sp_openat2_inside(int root, const char *path, uint64_t flags)
{
    struct open_how_of_linux how = {
        .flags = flags,
        .resolve = SP_RESOLVE_IN_ROOT | SP_RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(CALL_OPENAT2, root, path, &how, sizeof how);
}

int sp_clone_read_only(int folder, const char *path)
{
    struct mount_attr_of_linux attributes = {.set = SP_MOUNT_ATTRIBUTES};
    unsigned by = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    unsigned flags = SP_OPEN_TREE_CLONE | SP_OPEN_TREE_RECURSIVE | O_CLOEXEC | by;
    int mount = (int)syscall(CALL_OPEN_TREE, folder, path, flags);
    if (mount < 0) {
        return -1;
    }
    unsigned all = AT_EMPTY_PATH | SP_OPEN_TREE_RECURSIVE;
    if (syscall(CALL_MOUNT_SETATTR, mount, "", all, &attributes, sizeof attributes) != 0) {
        int fault = errno;
        (void)close(mount);
        errno = fault;
        return -1;
    }
    return mount;
}

int sp_close_range(unsigned first, unsigned last)
{
    return (int)syscall(CALL_CLOSE_RANGE, first, last, 0U);
}

int sp_fsopen(const char *kind)
{
    return (int)syscall(CALL_FSOPEN, kind, (unsigned)SP_FSOPEN_CLOEXEC);
}

int sp_fsconfig(int context, unsigned command, const char *key, const char *value)
{
    return (int)syscall(CALL_FSCONFIG, context, command, key, value, 0);
}

int sp_fsmount(int context)
{
    return (int)syscall(CALL_FSMOUNT, context, (unsigned)SP_FSMOUNT_CLOEXEC,
                        (unsigned)SP_MOUNT_ATTRIBUTES);
}

int sp_move_mount(int mount, int target)
{
    return (int)syscall(CALL_MOVE_MOUNT, mount, "", target, "",
                        (unsigned)SP_MOVE_MOUNT_BY_DESCRIPTORS);
}
