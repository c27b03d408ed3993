/* Tier 1 of a pack: the stack is also where it was built for, for the ranks of this user alone.
 *
 * So what names that place and could not be rewritten finds it. Everything else is as in tier 0.
 */
#include "../mounts/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* The folder of the pack that goes there; `stackproof/pack/model.py` names it. */
static const char *const STACK = "/stack";

const char *without_namespaces(void)
{
    const char *link = joined(find('M'), " to ", joined(root, STACK, ""));
    return joined("let an administrator permit user namespaces (the sysctls "
                  "user.max_user_namespaces, kernel.unprivileged_userns_clone, "
                  "kernel.apparmor_restrict_unprivileged_userns), or link ", link, "");
}

int is_in_place(const char *around)
{
    struct stat ours;
    struct stat there;
    const char *stack = joined(root, STACK, "");
    const char *place = joined(around, find('M'), "");
    return call(SYS_newfstatat, AT_FDCWD, (long)stack, (long)&ours, 0) == 0 &&
           call(SYS_newfstatat, AT_FDCWD, (long)place, (long)&there, 0) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

void put_in_place(void)
{
    const char *place = find('M');
    gain_rights();
    leave_mounts();
    make_folder(place);
    mount_at(joined(root, STACK, ""), place, NULL, MS_BIND | MS_REC, NULL);
}

const char *move_in(void)
{
    struct stat ours;
    const char *stack = joined(root, STACK, "");
    if (call(SYS_newfstatat, AT_FDCWD, (long)stack, (long)&ours, 0) != 0) {
        stop("the pack is not whole, it has no ", stack, "unpack the pack again");
    }
    const char *device = text_of((unsigned long)ours.st_dev);
    const char *number = text_of((unsigned long)ours.st_ino);
    return meet(joined(device, joined(":", number, " "), find('M')));
}
