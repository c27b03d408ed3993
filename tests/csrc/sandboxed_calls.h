/* Attacks of `sandboxed` on the first process of its sandbox, and by calls that no build needs. */
#include <sys/uio.h>

/* Something of a process' entry in /proc can be read. */
static long told_by_first(char const *name)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/1/%s", name);
    int const descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return -1;
    }
    ssize_t const count = read(descriptor, text, sizeof text);
    close(descriptor);
    errno = ENODATA;
    return count > 0 ? 0 : -1;
}

static long link_of_first(char const *name)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/1/%s", name);
    return readlink(path, text, sizeof text);
}

static long memory_of_first(int writes)
{
    char byte = 0;
    struct iovec const here = {&byte, 1}, there = {(void *)0x400000, 1};
    long const count = writes ? process_vm_writev(1, &here, 1, &there, 1, 0)
                              : process_vm_readv(1, &here, 1, &there, 1, 0);
    return count < 0 && errno == EFAULT ? 0 : count;  /* EFAULT: it was permitted */
}

/* The first process does not go on until who traces it lets it. */
static long traced_first(int request)
{
    long const done = ptrace(request, 1, NULL, NULL);
    if (done == 0 && request == PTRACE_ATTACH) {
        waitpid(1, NULL, __WALL);
        ptrace(PTRACE_DETACH, 1, NULL, NULL);
    }
    return done;
}

static long descriptor_of_first(void)
{
    int const first = (int)syscall(SYS_pidfd_open, 1, 0);
    return first < 0 ? -1 : syscall(438 /* pidfd_getfd */, first, 1, 0);
}

static long advised(void)
{
    struct iovec const none = {NULL, 0};
    int const own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return own < 0 ? -1 : syscall(440 /* process_madvise */, own, &none, 1, 20 /* COLD */, 0);
}

static long limit_of_first(void)
{
    struct rlimit limit;
    return prlimit(1, RLIMIT_CPU, NULL, &limit);
}

/* A family of sockets that the kernel, and not the filter, answers for. */
static long other_family(int pairs)
{
    for (int family = 0; family < 64; family++) {
        int both[2];
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK) {
            continue;
        }
        for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
            long const done = pairs ? socketpair(family, type, 0, both) : socket(family, type, 0);
            if (done >= 0 || errno != EAFNOSUPPORT) {
                return 0;
            }
        }
    }
    errno = EAFNOSUPPORT;
    return -1;
}

static long other_netlink(void)
{
    for (int protocol = 1; protocol < 32; protocol++) {
        if (socket(AF_NETLINK, SOCK_RAW, protocol) >= 0) {
            return 0;
        }
    }
    return -1;
}

static long ring(long number)
{
    unsigned parameters[30] = {0};
    long const done = number == 425   ? syscall(number, 1, parameters)
                      : number == 426 ? syscall(number, -1, 0, 0, 0, NULL, 0L)
                                      : syscall(number, -1, 0, NULL, 0);
    return done < 0 && (errno == ENOSYS || errno == EPERM) ? -1 : 0;  /* it was looked at */
}

static long handle(void)
{
    struct { struct file_handle head; char space[128]; } found = {{128, 0}, {0}};
    int mount_id = 0;
    return name_to_handle_at(AT_FDCWD, "/usr", &found.head, &mount_id, 0);
}

static long local_table(void)
{
#ifdef SYS_modify_ldt
    char table[64];
    return syscall(SYS_modify_ldt, 0, table, sizeof table);
#else
    errno = ENOSYS;
    return -1;
#endif
}

static long call_of_32_bits(void)
{
#ifdef __x86_64__
    long answer = 20; /* getpid */
    __asm__ volatile("int $0x80" : "+a"(answer) : : "memory", "r8", "r9", "r10", "r11");
    errno = ENOSYS;
    return answer > 0 ? 0 : -1;
#else
    errno = ENOSYS;
    return -1;
#endif
}
