/* Namespaces made and entered, by users without rights as well. */
#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>

static const char *folder;

char *text_of(unsigned long number)
{
    char digits[24];
    size_t place = sizeof digits;
    digits[--place] = '\0';
    do {
        digits[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return joined(digits + place, "", "");
}

long open_at(const char *path, long flags)
{
    return call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0);
}

/* What the kernel's answer means, in words; `fault` is the number, below zero. */
static const char *words_of(long fault)
{
    switch (-fault) {
    case EPERM:
    case EACCES:
        return " (not permitted)";
    case ENOSPC:
    case EUSERS:
        return " (none is left)";
    case ENOSYS:
    case EINVAL:
        return " (this kernel has none)";
    case ENOENT:
        return " (it is not there)";
    case EEXIST:
        return " (it is there)";
    default:
        return joined(" (error ", text_of((unsigned long)-fault), ")");
    }
}

void stop_at(const char *what, const char *which, long fault, const char *hint)
{
    stop(what, joined(which, words_of(fault), ""), hint);
}

void mount_at(const char *source, const char *target, const char *kind, unsigned long flags,
           const char *options)
{
    long fault = call_with_five(SYS_mount, (long)source, (long)target, (long)kind, (long)flags,
                                (long)options);
    if (fault != 0) {
        stop_at("this machine does not let you mount at ", target, fault, without_namespaces());
    }
}

static void write_map(const char *path, const char *text)
{
    long file = open_at(path, O_WRONLY);
    long count = file < 0 ? file : call(SYS_write, file, (long)text, (long)length(text), 0);
    if (count < 0) {
        stop_at("a user namespace cannot be set up: ", path, count, without_namespaces());
    }
    call(SYS_close, file, 0, 0, 0);
}

/* The line that leaves an id what it is. */
static const char *same(long id)
{
    char *number = text_of((unsigned long)id);
    return joined(number, joined(" ", number, ""), " 1\n");
}

static int may_mount(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
    return call(SYS_capget, (long)&head, (long)rights, 0, 0) == 0 &&
           (rights[0].effective & (1U << CAP_SYS_ADMIN)) != 0;
}

void gain_rights(void)
{
    if (may_mount()) {
        return;
    }
    const char *user = same(call(SYS_geteuid, 0, 0, 0, 0));
    const char *group = same(call(SYS_getegid, 0, 0, 0, 0));
    long fault = call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0);
    if (fault != 0) {
        stop_at("this pack needs a mount, and this machine lets you make no user namespace", "",
                fault, without_namespaces());
    }
    write_map("/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", user);
    write_map("/proc/self/gid_map", group);
}

void leave_mounts(void)
{
    long fault = call(SYS_unshare, CLONE_NEWNS, 0, 0, 0);
    if (fault != 0) {
        stop_at("this machine does not let you make a mount namespace", "", fault,
                without_namespaces());
    }
    mount_at(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
}

static int is_same(const char *pid, const char *name)
{
    const char *theirs = target_of(joined(joined("/proc/", pid, "/ns/"), name, ""));
    const char *ours = target_of(joined("/proc/self/ns/", name, ""));
    const char *rest = after(theirs, ours);
    return rest != NULL && *rest == '\0';
}

int enter(const char *pid)
{
    const char *names[] = {"user", "mnt"};
    long files[2];
    for (int i = 0; i < 2; i++) {
        const char *path = joined(joined("/proc/", pid, "/ns/"), names[i], "");
        files[i] = is_same(pid, names[i]) ? -1 : open_at(path, O_RDONLY);
        if (files[i] < 0 && !is_same(pid, names[i])) {
            return 0; /* it has just ended */
        }
    }
    for (int i = 0; i < 2; i++) {
        if (files[i] >= 0) {
            long fault = call(SYS_setns, files[i], 0, 0, 0);
            if (fault != 0) {
                stop_at("the mounts of another rank cannot be joined, process ", pid, fault,
                        "start it again");
            }
            call(SYS_close, files[i], 0, 0, 0);
        }
    }
    return 1;
}

void remember_folder(void)
{
    char *begin = room(PATH_BYTES);
    folder = call(SYS_getcwd, (long)begin, PATH_BYTES, 0, 0) > 0 && begin[0] == '/' ? begin : "/";
}

void return_to_folder(void)
{
    if (call(SYS_chdir, (long)folder, 0, 0, 0) != 0) {
        call(SYS_chdir, (long)"/", 0, 0, 0);
    }
}
