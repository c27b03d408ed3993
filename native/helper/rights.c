#include "rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The inode number of the first user namespace is fixed (linux/proc_ns.h, PROC_USER_INIT_INO). */
static const char FIRST_USER_NAMESPACE[] = "user:[4026531837]";

#define BIT(capability) (UINT64_C(1) << (capability))

struct capabilities {
    uint64_t effective;
    uint64_t permitted;
    uint64_t inheritable;
};

static int get_capabilities(struct capabilities *found)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    memset(data, 0, sizeof data);
    if (syscall(SYS_capget, &header, data) != 0) {
        return -1;
    }
    found->effective = (uint64_t)data[1].effective << 32 | data[0].effective;
    found->permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted;
    found->inheritable = (uint64_t)data[1].inheritable << 32 | data[0].inheritable;
    return 0;
}

/* Sets what is permitted and in effect, and nothing to be inherited. */
static int set_capabilities(uint64_t permitted, uint64_t effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    memset(data, 0, sizeof data);
    for (size_t word = 0; word < _LINUX_CAPABILITY_U32S_3; word++) {
        data[word].permitted = (uint32_t)(permitted >> (32 * word));
        data[word].effective = (uint32_t)(effective >> (32 * word));
    }
    return (int)syscall(SYS_capset, &header, data);
}

static int failed(struct sp_error *error, const char *what)
{
    return sp_fail(error, SP_NOT_PERMITTED, "cannot %s: %s", what, strerror(errno));
}

/* Makes real, effective and saved ids the caller's; keeps capabilities permitted. */
static int take_on_callers_ids(struct rights *rights, struct sp_error *error)
{
    uid_t user[3];
    gid_t group[3];
    if (getresuid(&user[0], &user[1], &user[2]) != 0 ||
        getresgid(&group[0], &group[1], &group[2]) != 0) {
        return failed(error, "read the ids of this process");
    }
    rights->user = user[0];
    rights->group = group[0];
    if (user[1] != user[0] && user[1] != 0) {
        (void)sp_fail(error, SP_NOT_PERMITTED, "this program is setuid, but not of root");
        return sp_hint(error, "let the administrator install it again");
    }
    if (setresgid(group[0], group[0], group[0]) != 0) {
        return failed(error, "take on the caller's group");
    }
    if (prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL) != 0) {
        return failed(error, "keep capabilities");
    }
    if (setresuid(user[0], user[0], user[0]) != 0) {
        return failed(error, "take on the caller's user");
    }
    (void)prctl(PR_SET_KEEPCAPS, 0UL, 0UL, 0UL, 0UL);
    return 0;
}

/* Looks whether all ids are the caller's: a system call that lies is worse than one that fails. */
static int check_ids(const struct rights *rights, struct sp_error *error)
{
    uid_t user[3];
    gid_t group[3];
    if (getresuid(&user[0], &user[1], &user[2]) == 0 &&
        getresgid(&group[0], &group[1], &group[2]) == 0 && user[0] == rights->user &&
        user[1] == rights->user && user[2] == rights->user && group[0] == rights->group &&
        group[1] == rights->group && group[2] == rights->group) {
        return 0;
    }
    return sp_fail(error, SP_NOT_PERMITTED, "the ids of this process are not the caller's");
}

int rights_begin(struct rights *rights, struct sp_error *error)
{
    const uint64_t wanted = BIT(CAP_SYS_ADMIN) | BIT(CAP_DAC_READ_SEARCH);
    struct capabilities had;
    *rights = (struct rights){.root = false};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) {
        return failed(error, "forbid new privileges");
    }
    if (take_on_callers_ids(rights, error) != 0 || check_ids(rights, error) != 0) {
        return -1;
    }
    rights->root = rights->user == 0;
    if (get_capabilities(&had) != 0) {
        return failed(error, "read capabilities");
    }
    if (rights->root) {
        rights->may_mount = (had.effective & BIT(CAP_SYS_ADMIN)) != 0;
        return 0;
    }
    if (set_capabilities(had.permitted & wanted, 0) != 0) {
        return failed(error, "give up capabilities");
    }
    /* Linux before 4.3 has no ambient capabilities. */
    (void)prctl(PR_CAP_AMBIENT, (unsigned long)PR_CAP_AMBIENT_CLEAR_ALL, 0UL, 0UL, 0UL);
    rights->may_mount = (had.permitted & BIT(CAP_SYS_ADMIN)) != 0;
    if (had.permitted != 0 && prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL) != 0) {
        return failed(error, "forbid tracing");
    }
    return 0;
}

bool rights_allow_kernel_mount(const struct rights *rights)
{
    char name[sizeof FIRST_USER_NAMESPACE + 1];
    const ssize_t length = (ssize_t)strlen(FIRST_USER_NAMESPACE);
    return rights->may_mount && access("/dev/loop-control", F_OK) == 0 &&
           readlink("/proc/self/ns/user", name, sizeof name) == length &&
           memcmp(name, FIRST_USER_NAMESPACE, (size_t)length) == 0;
}

static int put_into_effect(const struct rights *rights, uint64_t wanted, struct sp_error *error)
{
    struct capabilities held;
    if (rights->root) {
        return 0;
    }
    if (get_capabilities(&held) != 0 ||
        set_capabilities(held.permitted, held.permitted & wanted) != 0) {
        return failed(error, "change capabilities");
    }
    return 0;
}

int rights_raise(const struct rights *rights, bool devices, struct sp_error *error)
{
    return put_into_effect(rights, BIT(CAP_SYS_ADMIN) | (devices ? BIT(CAP_DAC_READ_SEARCH) : 0),
                           error);
}

int rights_lower(const struct rights *rights, struct sp_error *error)
{
    return put_into_effect(rights, 0, error);
}

int rights_drop(struct rights *rights, struct sp_error *error)
{
    struct capabilities left;
    if (rights->root) {
        return 0;
    }
    if (set_capabilities(0, 0) != 0) {
        return failed(error, "give up capabilities");
    }
    if (get_capabilities(&left) != 0 || (left.effective | left.permitted | left.inheritable) != 0 ||
        prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL) != 1) {
        return sp_fail(error, SP_NOT_PERMITTED, "capabilities are left after giving them up");
    }
    if (check_ids(rights, error) != 0) {
        return -1;
    }
    if (setresuid((uid_t)-1, 0, (uid_t)-1) == 0) {
        return sp_fail(error, SP_NOT_PERMITTED, "the rights of root could be taken back");
    }
    rights->may_mount = false;
    return 0;
}
