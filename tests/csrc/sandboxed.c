/* What a hostile build step would try against its sandbox: one attack for each call.
 *
 *   sandboxed list            the names of all attacks
 *   sandboxed NAME [WORD]     0 when the attack succeeded, else its errno
 *
 * `closed` (read-only) and `out` (writable) are folders of the working one. Attacks change nothing
 * that lasts where they succeed: they ask for what is there already. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/loop.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char const *word = "";

#define CALL(name, expression) \
    static long name(void) { return (long)(expression); }

static long opened(char const *path, int flags)
{
    int const descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return -1;
    }
    close(descriptor);
    return 0;
}

static long joined(char const *path)
{
    int const descriptor = open(path, O_RDONLY | O_CLOEXEC);
    return descriptor < 0 ? -1 : setns(descriptor, 0);
}

/* Write back what a file says: a setting of the kernel stays as it is. */
static long rewritten(char const *path)
{
    char text[4096];
    int const reading = open(path, O_RDONLY | O_CLOEXEC);
    if (reading < 0) {
        return -1;
    }
    ssize_t const count = read(reading, text, sizeof text);
    close(reading);
    int const writing = open(path, O_WRONLY | O_CLOEXEC);
    if (writing < 0) {
        return -1;
    }
    long const done = write(writing, text, (size_t)count) < 0 ? -1 : 0;
    close(writing);
    return done;
}

/* Give a file the mode that it has: allowed for its owner, if its file system can be written to. */
static long same_mode(char const *path)
{
    struct stat state;
    return stat(path, &state) < 0 ? -1 : chmod(path, state.st_mode & 07777);
}

static long device(mode_t type, unsigned major, unsigned minor)
{
    unlink("/tmp/made");
    if (mknod("/tmp/made", type | 0600, makedev(major, minor)) < 0) {
        return -1;
    }
    return opened("/tmp/made", O_RDONLY);
}

static long capabilities(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{~0U, ~0U, 0}, {~0U, ~0U, 0}};
    return syscall(SYS_capset, &head, data);
}

static long any_capability(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capget, &head, data) < 0) {
        return -1;
    }
    errno = EPERM;
    return data[0].permitted || data[1].permitted || data[0].effective ? 0 : -1;
}

static long new_mount(void)
{
    int const context = (int)syscall(SYS_fsopen, "tmpfs", 0);
    if (context < 0) {
        return -1;
    }
    return 0;
}

static long cloned_tree(void)
{
    return syscall(SYS_open_tree, AT_FDCWD, "/usr", 1U /* OPEN_TREE_CLONE */);
}

static long writable_again(void)
{
    struct { unsigned long long set, clear, propagation, user; } change = {0, 1, 0, 0};
    return syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, &change, sizeof change);
}

static long by_handle(void)
{
    struct { struct file_handle head; char space[128]; } found = {{128, 0}, {0}};
    int mount_id = 0;
    if (name_to_handle_at(AT_FDCWD, "/usr", &found.head, &mount_id, 0) < 0) {
        return -1;
    }
    int const where = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return open_by_handle_at(where, &found.head, O_RDONLY);
}

static long in_new_namespace(int flags)
{
    struct { unsigned long long flags, rest[10]; } wanted = {(unsigned long long)flags, {0}};
    pid_t const child = (pid_t)syscall(SYS_clone3, &wanted, sizeof wanted);
    if (child == 0) {
        _exit(0);
    }
    return child < 0 ? -1 : waitpid(child, NULL, 0) < 0;
}

static long kernel_counters(void)
{
    struct perf_event_attr wanted = {.type = PERF_TYPE_SOFTWARE, .size = sizeof wanted};
    return syscall(SYS_perf_event_open, &wanted, -1, 0, -1, 0UL);
}

static long moved_time(void)
{
    struct timex same = {.modes = ADJ_TICK, .tick = 10000};
    return adjtimex(&same) < 0 ? -1 : 0;
}

static long raised_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NICE, &limit) < 0) {
        return -1;
    }
    limit.rlim_max = 40;
    return setrlimit(RLIMIT_NICE, &limit);
}

static long real_time(void)
{
    struct sched_param const first = {.sched_priority = 1};
    return sched_setscheduler(0, SCHED_FIFO, &first);
}

static long packet_socket(void) { return socket(AF_PACKET, SOCK_RAW, 0); }
static long raw_socket(void) { return socket(AF_INET, SOCK_RAW, 255); }

static long connected(int family, int port)
{
    unsigned char address[16] = {(unsigned char)family, 0, (unsigned char)(port >> 8),
                                 (unsigned char)port, 127, 0, 0, 1};
    int const door = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return door < 0 ? -1 : connect(door, (struct sockaddr *)address, sizeof address);
}

static long connected_by_name(void)
{
    struct { sa_family_t family; char name[108]; } address = {AF_UNIX, ""};
    int const door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t const length = strlen(word);
    memcpy(address.name + 1, word, length < 100 ? length : 100);
    socklen_t const size = (socklen_t)(sizeof address.family + 1 + length);
    return door < 0 ? -1 : connect(door, (struct sockaddr *)&address, size);
}

static long read_memory(void)
{
    char byte;
    struct iovec const here = {&byte, 1}, there = {(void *)0x400000, 1};
    long const count = process_vm_readv(atoi(word), &here, 1, &there, 1, 0);
    return count < 0 && errno == EFAULT ? 0 : count < 0 ? -1 : 0;  /* EFAULT: it was permitted */
}

static long traced(void)
{
    long const done = ptrace(PTRACE_SEIZE, atoi(word), NULL, NULL);
    return done;
}

static long outside_folder(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/root", word);
    return opened(path, O_RDONLY);
}

static long found_key(void)
{
    return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", word, 0);
}

static long typed(void)
{
    for (int descriptor = 0; descriptor < 3; descriptor++) {
        if (ioctl(descriptor, TIOCSTI, "") == 0) {
            return 0;
        }
    }
    return -1;
}

static long more_descriptors(void)
{
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0) {
            return 0;
        }
    }
    return -1;
}

/* Change roots as often as one likes: the folder above is still the sandbox's. */
static long left_by_chroot(void)
{
    mkdir("/tmp/inner", 0700);
    int const outer = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (chroot("/tmp/inner") < 0 || fchdir(outer) < 0) {
        return -1;
    }
    for (int up = 0; up < 64; up++) {
        if (chdir("..") < 0) {
            return -1;
        }
    }
    return access("etc/shadow", F_OK);
}

static long linked(void)
{
    unlink("out/link");
    return link("closed/file", "out/link");
}

static long renamed(void) { return rename("closed/file", "out/taken"); }

static long mapped(void)
{
    int const descriptor = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    return descriptor < 0 ? -1 : write(descriptor, "0 0 1\n", 6);
}

static long less_killed(void)
{
    int const descriptor = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    return descriptor < 0 ? -1 : write(descriptor, "-1000", 5);
}

static long loop_device(void)
{
    int const control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    return control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
}

#include "sandboxed_calls.h"

CALL(mount_tmpfs, mount("x", "/tmp", "tmpfs", 0, NULL))
CALL(mount_proc, mount("x", "/tmp", "proc", 0, NULL))
CALL(mount_sysfs, mount("x", "/tmp", "sysfs", 0, NULL))
CALL(mount_devices, mount("x", "/tmp", "devtmpfs", 0, NULL))
CALL(mount_control_groups, mount("x", "/tmp", "cgroup2", 0, NULL))
CALL(mount_overlay, mount("x", "/tmp", "overlay", 0, "lowerdir=/usr:closed"))
CALL(mount_bind, mount("/usr", "/tmp", NULL, MS_BIND, NULL))
CALL(mount_move, mount("closed", "/tmp", NULL, MS_MOVE, NULL))
CALL(mount_shared, mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL))
CALL(remount_system, mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL))
CALL(remount_closed, mount(NULL, "closed", NULL, MS_REMOUNT | MS_BIND, NULL))
CALL(remount_root, mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL))
CALL(remount_settings, mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL))
CALL(unmount_closed, umount2("closed", MNT_DETACH))
CALL(unmount_settings, umount2("/proc/sys", MNT_DETACH))
CALL(unmount_process_table, umount2("/proc", MNT_DETACH))
CALL(unmount_root, umount2("/", MNT_DETACH))
CALL(pivoted, syscall(SYS_pivot_root, "/tmp", "/tmp"))
CALL(unshare_user, unshare(CLONE_NEWUSER))
CALL(unshare_mounts, unshare(CLONE_NEWNS))
CALL(unshare_network, unshare(CLONE_NEWNET))
CALL(unshare_processes, unshare(CLONE_NEWPID))
CALL(unshare_ipc, unshare(CLONE_NEWIPC))
CALL(unshare_name, unshare(CLONE_NEWUTS))
CALL(unshare_groups, unshare(CLONE_NEWCGROUP))
CALL(unshare_all, unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))
CALL(clone_user, in_new_namespace(CLONE_NEWUSER))
CALL(clone_mounts, in_new_namespace(CLONE_NEWNS))
CALL(clone_user_and_mounts, in_new_namespace(CLONE_NEWUSER | CLONE_NEWNS))
CALL(join_mounts, joined("/proc/1/ns/mnt"))
CALL(join_processes, joined("/proc/1/ns/pid"))
CALL(join_network, joined("/proc/1/ns/net"))
CALL(join_user, joined("/proc/1/ns/user"))
CALL(node_memory, device(S_IFCHR, 1, 1))
CALL(node_null, device(S_IFCHR, 1, 3))
CALL(node_log, device(S_IFCHR, 1, 11))
CALL(node_loop, device(S_IFBLK, 7, 0))
CALL(node_disk, device(S_IFBLK, 254, 0))
CALL(node_fuse, device(S_IFCHR, 10, 229))
CALL(open_memory, opened("/dev/mem", O_RDONLY))
CALL(open_port, opened("/dev/port", O_RDONLY))
CALL(open_kernel_log, opened("/dev/kmsg", O_WRONLY))
CALL(open_fuse, opened("/dev/fuse", O_RDWR))
CALL(open_virtual_machines, opened("/dev/kvm", O_RDWR))
CALL(open_disk, opened("/dev/vda", O_RDONLY) && opened("/dev/sda", O_RDONLY) ? -1 : 0)
CALL(open_terminal, opened("/dev/tty", O_RDWR))
CALL(open_kernel_memory, opened("/proc/kcore", O_RDONLY))
CALL(open_kernel_messages, opened("/proc/kmsg", O_RDONLY))
CALL(load_module, syscall(SYS_init_module, NULL, 0UL, ""))
CALL(load_module_file, syscall(SYS_finit_module, 0, "", 0))
CALL(unload_module, syscall(SYS_delete_module, "no-such-module", O_NONBLOCK))
CALL(load_kernel, syscall(SYS_kexec_load, 0UL, 0UL, NULL, 0UL))
CALL(reboot_key, syscall(SYS_reboot, 0xfee1dead, 672274793, 0x89abcdef, NULL))
CALL(add_swap, swapon("/nothing", 0))
CALL(remove_swap, swapoff("/nothing"))
CALL(account, acct(NULL))
CALL(name_host, sethostname("stackproof", 10))
CALL(name_domain, setdomainname("x", 1))
CALL(read_log, klogctl(3, (char[16]){0}, 16))
CALL(clear_log, klogctl(10, NULL, 0) < 0 ? -1 : 0)
CALL(ports, syscall(SYS_ioperm, 0x80UL, 1UL, 1))
CALL(all_ports, syscall(SYS_iopl, 3))
CALL(fanotify, syscall(SYS_fanotify_init, 0x4U /* FAN_CLASS_CONTENT */, 0))
CALL(become_root, setresuid(0, 0, 0))
CALL(become_another, setresuid(4242, 4242, 4242))
CALL(become_group, setresgid(4242, 4242, 4242))
CALL(join_groups, syscall(SYS_setgroups, 1, (gid_t[]){0}))
CALL(ambient, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0))
CALL(bounding, prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0))
CALL(privileges, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -1 : 0)
CALL(secure_bits, prctl(PR_SET_SECUREBITS, 0, 0, 0, 0))
CALL(give_away, chown("out/mine", 4242, 4242))
CALL(read_private, opened("closed/private", O_RDONLY))
CALL(write_closed, opened("closed/file", O_WRONLY))
CALL(write_system, opened("/usr/bin/env", O_WRONLY))
CALL(cut_closed, truncate("closed/file", 0))
CALL(remove_closed, unlink("closed/file"))
CALL(make_in_closed, mkdir("closed/folder", 0700))
CALL(mode_of_closed, same_mode("closed/file"))
CALL(mode_of_system, same_mode("/usr/bin/env"))
CALL(mode_of_null, same_mode("/dev/null"))
CALL(mode_of_random, same_mode("/dev/urandom"))
CALL(mode_of_tty, same_mode("/dev/tty"))
CALL(mode_of_input, same_mode("/proc/self/fd/0"))
CALL(mode_of_first_program, same_mode("/proc/1/exe"))
CALL(write_first_program, opened("/proc/1/exe", O_RDWR))
CALL(see_root_of_first, access("/proc/1/" "root" "/etc/shadow", F_OK))
CALL(see_folder_of_first, access("/proc/1/cwd/etc/shadow", F_OK))
CALL(see_password_file, access("/etc/shadow", F_OK))
CALL(see_above, access("/../../../etc/shadow", F_OK))
CALL(see_word, access(word, F_OK))
CALL(core_pattern, rewritten("/proc/sys/kernel/core_pattern"))
CALL(module_loader, rewritten("/proc/sys/kernel/modprobe"))
CALL(open_files, rewritten("/proc/sys/fs/file-max"))
CALL(user_namespaces, rewritten("/proc/sys/user/max_user_namespaces"))
CALL(forwarding, rewritten("/proc/sys/net/ipv4/ip_forward"))
CALL(system_request, opened("/proc/sysrq-trigger", O_WRONLY))
CALL(mode_of_setting, same_mode("/proc/sys/kernel/core_pattern"))
CALL(change_devices, opened("/sys/kernel/uevent_helper", O_WRONLY))
CALL(signal_word, kill(atoi(word), 0))
CALL(handle_of_word, syscall(SYS_pidfd_open, atoi(word), 0))
CALL(connect_word, connected(AF_INET, atoi(word)))
CALL(shared_memory, shmget(atoi(word), 1, 0))
CALL(first, setpriority(PRIO_PROCESS, 0, -5))
CALL(kernel_faults, syscall(SYS_userfaultfd, O_CLOEXEC))
CALL(quota, syscall(SYS_quotactl, 0x800001, NULL, 0, NULL))
CALL(any_family, other_family(0))
CALL(any_pair, other_family(1))
CALL(ring_made, ring(425))
CALL(ring_entered, ring(426))
CALL(ring_registered, ring(427))
CALL(environment_of_first, told_by_first("environ"))
CALL(words_of_first, told_by_first("cmdline"))
CALL(memory_map_of_first, told_by_first("maps"))
CALL(mounts_of_first, told_by_first("mountinfo"))
CALL(state_of_first, told_by_first("status"))
CALL(state_of_its_thread, told_by_first("task/1/status"))
CALL(program_of_first, link_of_first("exe"))
CALL(folder_of_first, link_of_first("cwd"))
CALL(input_of_first, link_of_first("fd/0"))
CALL(write_memory_of_first, opened("/proc/1/mem", O_RDWR))
CALL(uncover_first, umount2("/proc/1", MNT_DETACH))
CALL(read_first, memory_of_first(0))
CALL(write_first, memory_of_first(1))
CALL(seize_first, traced_first(PTRACE_SEIZE))
CALL(attach_first, traced_first(PTRACE_ATTACH))
CALL(first_by_long_number, syscall(SYS_ptrace, PTRACE_SEIZE, 0x100000001L, 0L, 0L))
CALL(compare_first, syscall(SYS_kcmp, getpid(), 1, 1 /* KCMP_VM */, 0L, 0L))
CALL(kill_first, kill(1, SIGKILL) < 0 || access("/proc/1", F_OK) == 0 ? (errno = EPERM, -1) : 0)
CALL(fanotify_of_users, syscall(SYS_fanotify_init, 0x200U /* FAN_REPORT_FID */, 0))
CALL(secret_memory, syscall(447, 0))
CALL(released, syscall(448, -1, 0) < 0 && errno == EPERM ? -1 : 0)
CALL(read_page_counts, opened("/proc/kpagecount", O_RDONLY))
CALL(read_slabs, opened("/proc/slabinfo", O_RDONLY))
CALL(read_keys, opened("/proc/keys", O_RDONLY))

static struct { char const *name; long (*call)(void); } const attacks[] = {
#define A(call) {#call, call}
    A(mount_tmpfs), A(mount_proc), A(mount_sysfs), A(mount_devices), A(mount_control_groups),
    A(mount_overlay), A(mount_bind), A(mount_move), A(mount_shared), A(remount_system),
    A(remount_closed), A(remount_root), A(remount_settings), A(unmount_closed),
    A(unmount_settings), A(unmount_process_table), A(unmount_root), A(new_mount), A(cloned_tree),
    A(writable_again), A(by_handle), A(pivoted), A(left_by_chroot), A(unshare_user),
    A(unshare_mounts), A(unshare_network), A(unshare_processes), A(unshare_ipc), A(unshare_name),
    A(unshare_groups), A(unshare_all), A(clone_user), A(clone_mounts), A(clone_user_and_mounts),
    A(join_mounts), A(join_processes), A(join_network), A(join_user), A(node_memory), A(node_null),
    A(node_log), A(node_loop), A(node_disk), A(node_fuse), A(open_memory), A(open_port),
    A(open_kernel_log), A(open_fuse), A(open_virtual_machines), A(open_disk), A(open_terminal),
    A(open_kernel_memory), A(open_kernel_messages), A(loop_device), A(load_module),
    A(load_module_file), A(unload_module), A(load_kernel), A(reboot_key), A(add_swap),
    A(remove_swap), A(account), A(name_host), A(name_domain), A(read_log), A(clear_log), A(ports),
    A(all_ports), A(fanotify), A(kernel_counters), A(kernel_faults), A(quota), A(moved_time),
    A(raised_limit), A(real_time), A(first), A(less_killed), A(become_root), A(become_another),
    A(become_group), A(join_groups), A(capabilities), A(any_capability), A(ambient), A(bounding),
    A(privileges), A(secure_bits), A(mapped), A(give_away),
    A(read_private), A(write_closed), A(write_system), A(cut_closed), A(remove_closed),
    A(make_in_closed), A(linked), A(renamed), A(mode_of_closed), A(mode_of_system),
    A(mode_of_null), A(mode_of_random), A(mode_of_tty), A(mode_of_input),
    A(mode_of_first_program), A(write_first_program), A(mode_of_setting), A(see_root_of_first),
    A(see_folder_of_first), A(see_password_file), A(see_above), A(core_pattern), A(module_loader),
    A(open_files), A(user_namespaces), A(forwarding), A(system_request), A(change_devices),
    A(packet_socket), A(raw_socket), A(typed), A(more_descriptors),
    A(ring_made), A(ring_entered), A(ring_registered), A(environment_of_first), A(words_of_first),
    A(memory_map_of_first), A(mounts_of_first), A(state_of_first), A(state_of_its_thread),
    A(program_of_first), A(folder_of_first), A(input_of_first), A(write_memory_of_first),
    A(uncover_first), A(read_first), A(write_first), A(seize_first), A(attach_first),
    A(first_by_long_number), A(compare_first), A(kill_first), A(descriptor_of_first), A(advised),
    A(limit_of_first), A(fanotify_of_users), A(secret_memory), A(released), A(handle),
    A(local_table), A(call_of_32_bits), A(read_page_counts), A(read_slabs), A(read_keys),
    A(any_family), A(any_pair), A(other_netlink),
    /* of these the word is something outside */
    A(see_word), A(signal_word), A(handle_of_word), A(traced), A(read_memory), A(outside_folder),
    A(connect_word), A(connected_by_name), A(shared_memory), A(found_key),
};

int main(int count, char **words)
{
    size_t const number = sizeof attacks / sizeof attacks[0];
    char const *const wanted = count > 1 ? words[1] : "";
    word = count > 2 ? words[2] : "";
    for (size_t i = 0; i < number; i++) {
        if (strcmp(wanted, "list") == 0) {
            puts(attacks[i].name);
        } else if (strcmp(wanted, attacks[i].name) == 0) {
            errno = 0;
            return attacks[i].call() < 0 ? (errno ? errno : 1) : 0;
        }
    }
    return strcmp(wanted, "list") == 0 ? 0 : 255;
}
