/* Unit test of squashfuse's filter of system calls: what it says of every number is what the table
 * says. The filter is run here as the kernel runs it. Prints TAP. */
#include <stdbool.h>
#include <stdio.h>

/* Its functions are its own. NOLINTNEXTLINE(bugprone-suspicious-include) */
#include "../helper/confine.c"

enum { NUMBERS = 1024, X32 = 0x40000000 };

/* Returns what a filter sees at an offset of its data. */
static uint32_t datum(uint32_t offset, uint32_t number, uint32_t flags)
{
    if (offset == offsetof(struct seccomp_data, arch)) {
        return (uint32_t)ARCHITECTURE;
    }
    return offset == offsetof(struct seccomp_data, nr) ? number : flags;
}

/* Runs a filter for the number of a system call; `flags` is each of its arguments. */
static uint32_t run(const struct filter *filter, uint32_t number, uint32_t flags)
{
    uint32_t loaded = 0;
    for (size_t at = 0; at < filter->length; at++) {
        const struct sock_filter *step = &filter->code[at];
        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            loaded = datum(step->k, number, flags);
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += loaded == step->k ? step->jt : step->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += loaded >= step->k ? step->jt : step->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += (loaded & step->k) != 0 ? step->jt : step->jf;
            break;
        default:
            return step->k; /* BPF_RET */
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static uint32_t expected(uint32_t number, uint32_t flags)
{
    bool allowed = number == SYS_clone && (flags & CLONE_THREAD) != 0;
    for (size_t row = 0; row < ROWS; row++) {
        allowed = allowed || permitted[row] == number;
    }
    bool signals = flags == F_SETOWN || flags == F_SETSIG || flags == F_SETOWN_EX;
    if ((number == SYS_fcntl && signals) || (number == SYS_prlimit64 && flags != 0)) {
        allowed = false;
    }
#ifdef SYS_clone3
    if (number == SYS_clone3) {
        return SECCOMP_RET_ERRNO | ENOSYS;
    }
#endif
    return allowed ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM;
}

int main(void)
{
    static const uint32_t arguments[] = {0, CLONE_THREAD, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_GETFL};
    enum { ARGUMENTS = sizeof arguments / sizeof arguments[0] };
    struct filter filter;
    int failures = 0;
    write_filter(&filter);
    for (uint32_t number = 0; ARCHITECTURE != 0 && number < NUMBERS; number++) {
        for (uint32_t round = 0; round < 2 * ARGUMENTS; round++) {
            uint32_t called = number + (round & 1) * X32;
            uint32_t flags = arguments[round / 2];
            if (run(&filter, called, flags) != expected(called, flags)) {
                (void)printf("# system call %u is filtered wrongly\n", called);
                failures++;
            }
        }
    }
    (void)printf("%sok 1 - every system call\n1..1\n", failures == 0 ? "" : "not ");
    return failures == 0 ? 0 : 1;
}
