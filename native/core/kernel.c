#include "kernel.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALL_FSOPEN = 430, CALL_FSCONFIG = 431, CALL_FSMOUNT = 432, CALL_MOVE_MOUNT = 429 };
enum { CALL_OPENAT2 = 437 };

struct open_how_of_linux {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

int sp_openat2_no_links(const char *path, uint64_t flags)
{
    struct open_how_of_linux how = {
        .flags = flags,
        .resolve = SP_RESOLVE_NO_SYMLINKS | SP_RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(CALL_OPENAT2, AT_FDCWD, path, &how, sizeof how);
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
