/* What a C library would do: the kernel called, texts, and the memory that they lie in. */
#include "entry.h"

#include <fcntl.h>
#include <string.h>

enum { CANNOT_START = 126 };

char arena[ARENA_BYTES];
size_t used;

#if defined __x86_64__
long call_with_five(long number, long a, long b, long c, long d, long e)
{
    long answer;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return answer;
}
#elif defined __aarch64__
long call_with_five(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "entry points are for x86_64 and aarch64"
#endif

#ifndef STACKPROOF_HOSTED /* where a C library begins the program, and a test ends it */
#ifdef __x86_64__
__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");
#else
__asm__(".globl _start\n_start: mov x0, sp\nbl begin\n");
#endif

/* What gcc for aarch64 calls to clear a value, also where there is no library. */
void *set_bytes(void *target, int value, size_t count) __asm__("memset");

void *set_bytes(void *target, int value, size_t count)
{
    unsigned char *bytes = target;
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)value;
    }
    return target;
}
#endif

long call(long number, long a, long b, long c, long d)
{
    return call_with_five(number, a, b, c, d, 0);
}

size_t length(const char *text)
{
    size_t count = 0;
    while (text[count] != '\0') {
        count++;
    }
    return count;
}

void say(const char *text)
{
    call(SYS_write, 2, (long)text, (long)length(text), 0);
}

void say_number(unsigned number)
{
    char digits[12];
    size_t place = sizeof digits - 1;
    digits[place] = '\0';
    do {
        digits[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    say(digits + place);
}

#ifndef STACKPROOF_HOSTED
void stop(const char *what, const char *which, const char *hint)
{
    say("error: ");
    say(what);
    say(which);
    say("\nhint: ");
    say(hint);
    say("\n");
    for (;;) {
        call(SYS_exit_group, CANNOT_START, 0, 0, 0);
    }
}
#endif

const char *after(const char *text, const char *name)
{
    while (*name != '\0') {
        if (*text++ != *name++) {
            return NULL;
        }
    }
    return text;
}

char *kept(const char *text, size_t count)
{
    if (count >= ARENA_BYTES - used) {
        stop("the environment is too large for an entry point of a pack", "",
             "unset what is large, or start the program in a smaller environment");
    }
    char *place = arena + used;
    for (size_t i = 0; i < count; i++) {
        place[i] = text[i];
    }
    used += count;
    return place;
}

char *end_text(char *begin)
{
    kept("", 1);
    return begin;
}

void *room(size_t bytes)
{
    used = (used + 15) & ~(size_t)15;
    if (bytes >= ARENA_BYTES - used) {
        kept("", ARENA_BYTES);
    }
    void *place = arena + used;
    used += bytes;
    return place;
}

char *joined(const char *first, const char *second, const char *third)
{
    char *begin = arena + used;
    kept(first, length(first));
    kept(second, length(second));
    kept(third, length(third));
    if (length(first) + length(second) + length(third) >= PATH_BYTES) {
        stop("the path of this pack is longer than the kernel takes: ", first,
             "move the pack to a folder with a shorter name");
    }
    return end_text(begin);
}

char *target_of(const char *link)
{
    char *begin = room(PATH_BYTES);
    long count = call(SYS_readlinkat, AT_FDCWD, (long)link, (long)begin, PATH_BYTES - 1);
    count = count < 0 ? 0 : count;
    used -= PATH_BYTES - (size_t)count - 1;
    begin[count] = '\0';
    return begin;
}
