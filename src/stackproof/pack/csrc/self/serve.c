/* Programs that came along in this file, run from memory: they ask nothing of the machine.
 *
 * Each is a file of memfd_create(2), as are its loader and its libraries. The loader takes those
 * for what the program needs, as they were loaded before it.
 */
#include "self.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>

enum { FIRST_FREE = 3, WORDS = 24 };

static const char *skip_word(const char *text)
{
    while (*text != '\0' && *text != ' ') {
        text++;
    }
    return *text == ' ' ? text + 1 : text;
}

static struct part part_of(const char *text)
{
    struct part found = {.offset = number_of(text), .bytes = number_of(skip_word(text))};
    return found;
}

/* Copy a part of this file to a file in memory. */
static long loaded(const char *text)
{
    struct part from = part_of(text);
    long file = call(SYS_memfd_create, (long)"stackproof-pack", 0, 0, 0);
    int64_t at = (int64_t)from.offset;
    while (file >= 0 && from.bytes > 0) {
        long count = call(SYS_sendfile, file, own_file, (long)&at, (long)from.bytes);
        if (count <= 0) {
            stop("this file is not whole: ", target_of("/proc/self/exe"), "copy it again");
        }
        from.bytes -= (unsigned long)count;
    }
    if (file < 0) {
        stop_at("a program cannot be kept in memory", "", file, "unpack the pack elsewhere");
    }
    return file;
}

static const char *place_of(long file)
{
    return joined("/proc/self/fd/", text_of((unsigned long)file), "");
}

/* Records of a letter are `OFFSET BYTES NAME`. */
static const char *record_of(char letter, const char *name)
{
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == letter) {
            const char *rest = after(skip_word(skip_word(record + 1)), name);
            if (rest != NULL && *rest == '\0') {
                return record + 1;
            }
        }
    }
    return NULL;
}

int has_tool(const char *name)
{
    return record_of('t', name) != NULL;
}

void become_tool(const char *name, const char *const *last)
{
    const char *program = record_of('t', name);
    const char *loader = find('l');
    if (program == NULL || loader == NULL) {
        return;
    }
    const char *libraries = "";
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 'b') {
            const char *colon = libraries[0] == '\0' ? "" : ":";
            libraries = joined(libraries, colon, place_of(loaded(record + 1)));
        }
    }
    const char *words[WORDS] = {place_of(loaded(loader)), "--inhibit-cache", "--argv0", name,
                                "--preload", libraries, place_of(loaded(program))};
    size_t count = 7;
    for (size_t i = 0; last[i] != NULL && count < WORDS - 1; i++) {
        words[count++] = last[i];
    }
    words[count] = NULL;
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    long fault = call(SYS_execve, (long)words[0], (long)words, (long)environment, 0);
    stop_at("a program of this file cannot be started: ", name, fault, "unpack the pack elsewhere");
}

/* Be squashfuse, holding nothing of the caller but what it serves. */
__attribute__((noreturn)) static void serve(long device, long go)
{
    char start;
    call(SYS_chdir, (long)"/", 0, 0, 0);
    long nothing = open_at("/dev/null", O_RDWR);
    for (long number = 0; number < FIRST_FREE; number++) {
        call(SYS_dup3, nothing, number, 0, 0);
    }
    /* Programs that were started before this one wait for the end of its pipes. */
    for (long number = FIRST_FREE; number < 1024; number++) {
        if (number != device && number != go && number != own_file) {
            call(SYS_close, number, 0, 0, 0);
        }
    }
    if (call(SYS_read, go, (long)&start, 1, 0) == 1) {
        const char *offset = joined("offset=", text_of(image.offset), "");
        call(SYS_fcntl, device, F_SETFD, 0, 0);
        call(SYS_fcntl, own_file, F_SETFD, 0, 0);
        const char *mounted = joined("/dev/fd/", text_of((unsigned long)device), "");
        const char *const last[] = {"-f", "-o", offset, place_of(own_file), mounted, NULL};
        become_tool("squashfuse", last);
    }
    for (;;) {
        call(SYS_exit_group, 0, 0, 0, 0);
    }
}

long start_server(long device)
{
    int ends[2];
    call(SYS_pipe2, (long)ends, O_CLOEXEC, 0, 0);
    long child = call_with_five(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        call(SYS_setsid, 0, 0, 0, 0);
        if (call_with_five(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
            serve(device, ends[0]);
        }
        for (;;) {
            call(SYS_exit_group, 0, 0, 0, 0);
        }
    }
    int status;
    call(SYS_wait4, child, (long)&status, 0, 0);
    call(SYS_close, ends[0], 0, 0, 0);
    return ends[1];
}
