#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { ARCHITECTURE = (int)AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCHITECTURE = (int)AUDIT_ARCH_AARCH64 };
#else
enum { ARCHITECTURE = 0 };
#endif

/* What libc, libfuse and the decompressors call; what is missing on an architecture has no row.
 * `execve` is the way into the program itself; Landlock leaves it no other one. */
static const uint32_t permitted[] = {
    SYS_read,           SYS_write,           SYS_readv,
    SYS_writev,         SYS_pread64,         SYS_preadv,
    SYS_openat,         SYS_close,           SYS_fstat,
    SYS_newfstatat,     SYS_lseek,           SYS_mmap,
    SYS_mprotect,       SYS_munmap,          SYS_mremap,
    SYS_madvise,        SYS_brk,             SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn,    SYS_sigaltstack,
    SYS_ioctl,          SYS_fcntl,           SYS_dup,
    SYS_dup3,           SYS_pipe2,           SYS_ppoll,
    SYS_futex,          SYS_set_robust_list, SYS_set_tid_address,
    SYS_prlimit64,      SYS_getpid,          SYS_gettid,
    SYS_getuid,         SYS_geteuid,         SYS_getgid,
    SYS_getegid,        SYS_exit,            SYS_exit_group,
    SYS_execve,         SYS_faccessat,       SYS_readlinkat,
    SYS_getcwd,         SYS_chdir,           SYS_umask,
    SYS_clock_gettime,  SYS_clock_nanosleep, SYS_nanosleep,
    SYS_gettimeofday,   SYS_getrandom,       SYS_sched_yield,
    SYS_getdents64,     SYS_splice,          SYS_vmsplice,
    SYS_uname,          SYS_restart_syscall, SYS_statfs,
    SYS_fstatfs,        SYS_fadvise64,       SYS_sched_getaffinity,
#ifdef SYS_open
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_dup2,
    SYS_pipe,
    SYS_poll,
    SYS_arch_prctl,
    SYS_getrlimit,
    SYS_time,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
};

enum {
    ROWS = sizeof permitted / sizeof permitted[0],
    /* Each call may end a run of permitted ones and begin another; the checks before them. */
    MOST_EDGES = 2 * ROWS,
    MOST_INSTRUCTIONS = 2 * MOST_EDGES + 32,
    HALVINGS = 8, /* 2^8 > MOST_EDGES */
};

/* A filter as it is written down. */
struct filter {
    struct sock_filter code[MOST_INSTRUCTIONS];
    unsigned short length;
};

/* The numbers, ascending, at which being permitted begins and ends in turn. */
struct edges {
    uint32_t at[MOST_EDGES];
    size_t count;
};

static void add(struct filter *filter, struct sock_filter instruction)
{
    filter->code[filter->length++] = instruction;
}

static void add_end(struct filter *filter, uint32_t action)
{
    add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void add_load(struct filter *filter, size_t offset)
{
    add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Adds: if what was loaded is `value`, go on, otherwise pass over `others` instructions. */
static void add_case(struct filter *filter, uint32_t value, uint8_t others)
{
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, others));
}

static int compare_calls(const void *first, const void *second)
{
    uint32_t one = *(const uint32_t *)first;
    uint32_t other = *(const uint32_t *)second;
    return (one > other) - (one < other);
}

static void find_edges(struct edges *edges)
{
    uint32_t sorted[ROWS];
    memcpy(sorted, permitted, sizeof sorted);
    qsort(sorted, ROWS, sizeof sorted[0], compare_calls);
    edges->count = 0;
    for (size_t row = 0; row < ROWS; row++) {
        if (edges->count == 0 || edges->at[edges->count - 1] != sorted[row]) {
            edges->at[edges->count++] = sorted[row];
            edges->at[edges->count++] = sorted[row];
        }
        edges->at[edges->count - 1] = sorted[row] + 1;
    }
}

/* Adds the search among the edges. Halves and not a row of comparisons: the kernel runs a new
 * filter once for every system call there is (seccomp_cache_prepare), and the mount waits for it.
 * The half below a comparison follows it; the one above waits in `above` for its place. */
static void add_search(struct filter *filter, const struct edges *edges)
{
    struct {
        size_t node, first, end;
    } above[HALVINGS];
    size_t waiting = 0;
    size_t first = 0;
    size_t end = edges->count;
    for (;;) {
        while (first < end) {
            size_t middle = first + (end - first) / 2;
            above[waiting].node = filter->length;
            above[waiting].first = middle + 1;
            above[waiting++].end = end;
            add(filter,
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, edges->at[middle], 0, 0));
            end = middle;
        }
        add_end(filter, first % 2 != 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM);
        if (waiting == 0) {
            return;
        }
        size_t node = above[--waiting].node;
        filter->code[node].jt = (uint8_t)(filter->length - node - 1);
        first = above[waiting].first;
        end = above[waiting].end;
    }
}

static void write_filter(struct filter *filter)
{
    struct edges edges;
    filter->length = 0;
    add_load(filter, offsetof(struct seccomp_data, arch));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ARCHITECTURE, 1,
                                             0));
    add_end(filter, SECCOMP_RET_KILL_THREAD);
    add_load(filter, offsetof(struct seccomp_data, nr));
#ifdef SYS_clone3 /* its flags lie where a filter cannot look: libc then takes clone */
    add_case(filter, SYS_clone3, 1);
    add_end(filter, SECCOMP_RET_ERRNO | ENOSYS);
#endif
    /* Threads, and no processes. */
    add_case(filter, SYS_clone, 4);
    add_load(filter, offsetof(struct seccomp_data, args[0]));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
    add_end(filter, SECCOMP_RET_ALLOW);
    add_end(filter, SECCOMP_RET_ERRNO | EPERM);
    /* Of these, no command that has a signal sent to a process. */
    add_case(filter, SYS_fcntl, 6);
    add_load(filter, offsetof(struct seccomp_data, args[1]));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETOWN, 3, 0));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETSIG, 2, 0));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETOWN_EX, 1, 0));
    add_end(filter, SECCOMP_RET_ALLOW);
    add_end(filter, SECCOMP_RET_ERRNO | EPERM);
    /* Limits of the process itself, and of no other. */
    add_case(filter, SYS_prlimit64, 4);
    add_load(filter, offsetof(struct seccomp_data, args[0]));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1));
    add_end(filter, SECCOMP_RET_ALLOW);
    add_end(filter, SECCOMP_RET_ERRNO | EPERM);
    find_edges(&edges);
    add_search(filter, &edges);
}

static int restrict_calls(void)
{
    struct filter filter;
    if (ARCHITECTURE == 0) {
        return 0;
    }
    write_filter(&filter);
    const struct sock_fprog program = {.len = filter.length, .filter = filter.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) {
        return 0;
    }
    return errno == ENOSYS || prctl(PR_GET_SECCOMP) < 0 ? 0 : -1; /* a kernel without it */
}

/* Landlock, of linux/landlock.h, which older systems lack; the numbers are the same everywhere. */
enum { CALL_CREATE_RULESET = 444, CALL_ADD_RULE = 445, CALL_RESTRICT_SELF = 446 };
enum { EXECUTE = 1, READ_FILE = 4, READ_FOLDER = 8, RULE_PATH_BENEATH = 1, ASK_VERSION = 1 };

/* All rights of each version of Landlock. */
static const uint64_t rights_of_version[] = {0, 0x1FFF, 0x3FFF, 0x7FFF};

struct path_beneath {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

static void permit(int rules, int place, uint64_t rights)
{
    struct path_beneath rule = {.allowed = rights, .parent = place};
    (void)syscall(CALL_ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0U);
}

static void permit_path(int rules, const char *path, uint64_t rights)
{
    struct stat state;
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place >= 0 && fstat(place, &state) == 0) {
        permit(rules, place, S_ISDIR(state.st_mode) ? rights : rights & ~(uint64_t)READ_FOLDER);
    }
    if (place >= 0) {
        (void)close(place);
    }
}

static void restrict_files(const char *program, int image)
{
    static const char *const libraries[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64",
                                            "/usr/local/lib"};
    static const char *const files[] = {"/etc/ld.so.cache", "/etc/fuse.conf", "/dev/null", "/proc",
                                        "/sys/devices/system/cpu"};
    long version = syscall(CALL_CREATE_RULESET, NULL, 0UL, (unsigned)ASK_VERSION);
    /* One from elsewhere has its libraries anywhere. */
    if (version < 1 || strncmp(program, "/usr/", strlen("/usr/")) != 0) {
        return;
    }
    uint64_t handled = rights_of_version[version < 3 ? version : 3];
    int rules = (int)syscall(CALL_CREATE_RULESET, &handled, sizeof handled, 0U);
    if (rules < 0) {
        return;
    }
    for (size_t index = 0; index < sizeof libraries / sizeof libraries[0]; index++) {
        permit_path(rules, libraries[index], EXECUTE | READ_FILE | READ_FOLDER);
    }
    for (size_t index = 0; index < sizeof files / sizeof files[0]; index++) {
        permit_path(rules, files[index], READ_FILE | READ_FOLDER);
    }
    permit_path(rules, program, EXECUTE | READ_FILE);
    permit(rules, image, READ_FILE);
    (void)syscall(CALL_RESTRICT_SELF, rules, 0U);
    (void)close(rules);
}

int confine(const char *program, int image)
{
    restrict_files(program, image);
    return restrict_calls();
}
