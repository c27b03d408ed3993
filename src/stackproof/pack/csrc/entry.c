/* The entry point of a program of a pack: environment, loader, exec. Nothing waits, nothing is
 * left.
 *
 * It finds the pack by its own place, changes the environment as the table says, and becomes the
 * program: by this machine's loader where its C library has what the pack needs, else by the loader
 * that came along. It uses no library, since to map one takes as long as to map the program.
 */
#include "entry.h"

#include <errno.h>
#include <fcntl.h>

enum { LINKS = 40, EXTRA = 16 };

static char *entry;
static char *program;

/* Cut the last name off a path, leaving its folder. */
static void cut(char *path)
{
    size_t last = length(path);
    while (last > 0 && path[last] != '/') {
        last--;
    }
    path[last] = '\0';
}

static char *working_folder(const char *started)
{
    char *begin = room(PATH_BYTES);
    if (call(SYS_getcwd, (long)begin, PATH_BYTES, 0, 0) <= 0 || begin[0] != '/') {
        stop("the place of this pack cannot be found out: ", started,
             "start the program by its full path");
    }
    return begin;
}

/* Find out where this is: from /proc, or else from the name it was started by. */
static void find_entry(const char *started)
{
    entry = target_of("/proc/self/exe");
    if (entry[0] == '/') {
        return;
    }
    if (started == NULL) {
        stop("the place of this pack cannot be found out: /proc is not mounted", "",
             "start the program by its full path");
    }
    entry =
        started[0] == '/' ? joined(started, "", "") : joined(working_folder(started), "/", started);
    for (int i = 0; i < LINKS; i++) {
        char *target = target_of(entry);
        if (target[0] == '\0') {
            return;
        }
        if (target[0] == '/') {
            entry = target;
        } else {
            cut(entry);
            entry = joined(entry, "/", target);
        }
    }
}

/* Set the folder of the pack: as many above the entry point's as `up` has parts. */
static void find_root(const char *up)
{
    root = joined(entry, "", "");
    cut(root);
    for (; *up != '\0'; up++) {
        if (up[0] == '.' && (up[1] == '/' || up[1] == '\0')) {
            cut(root);
        }
    }
}

/* The name the program is told: that of this file for launchers, which look beside themselves. */
static char *shown_name(char *given)
{
    if (find('N') != NULL) {
        return filled(find('N'));
    }
    if (find('A') == NULL) {
        return given;
    }
    char *base = given;
    for (char *at = given; *at != '\0'; at++) {
        base = *at == '/' ? at + 1 : base;
    }
    char *begin = arena + used;
    kept(entry, length(entry));
    while (arena[used - 1] != '/') {
        used--;
    }
    kept(base, length(base));
    return end_text(begin);
}

static void explain(const char *moved, const char *why, unsigned newest)
{
    if (moved == NULL) {
        say("stackproof pack: tier 0, no namespace: ");
    } else {
        say("stackproof pack: tier 1, as ");
        say(find('W'));
        say(": ");
        say(moved);
        say(", with the stack at ");
        say(find('M'));
        say(": ");
    }
    say(program);
    if (find('I') == NULL) {
        say("\nstackproof pack: a script, by the interpreter that it names\n");
        return;
    }
    say("\nstackproof pack: needs GLIBC_2.");
    say_number((unsigned)number_of(find('F')));
    if (newest != 0) {
        say(", and this machine has GLIBC_2.");
        say_number(newest);
    }
    say(why == NULL ? ": by the loader of this machine, " : ": by the loader of the pack, as ");
    say(why == NULL ? find('I') : why);
    say("\n");
}

static void explain_spare(const char *lacks, const char *version)
{
    if (lacks == NULL) {
        say("stackproof pack: RDMA by the libraries of this machine\n");
        return;
    }
    say("stackproof pack: RDMA by the libraries in ");
    say(root);
    say("/");
    say(find('S'));
    say(", as this machine has no ");
    say(lacks);
    if (version != NULL) {
        say(" with ");
        say(version);
    }
    say("\n");
}

static const char *cause(long fault)
{
    switch (fault) {
    case -ENOENT:
        return "the pack is not whole, or its program needs what this machine lacks: ";
    case -EACCES:
        return "the pack lies where you may not run programs (mounted noexec, or closed to you): ";
    case -ENOEXEC:
        return "the program is for another kind of machine: ";
    case -E2BIG:
        return "arguments and environment are too large to start: ";
    default:
        return "the kernel does not start the program: ";
    }
}

/* A library for RDMA that this machine lacks, NULL for none; the environment leads to the pack's
 * then, but where the loader of the pack (`own`) is told of it and does not read that. */
static const char *spared(char **environment, int own)
{
    if (find('S') == NULL) {
        return NULL;
    }
    const char *version = NULL;
    const char *lacks = lacking(&version);
    look_in_spare(environment, lacks != NULL && !own);
    if (valued(environment, "STACKPROOF_PACK_EXPLAIN") != NULL) {
        explain_spare(lacks, version);
    }
    return lacks;
}

__attribute__((noreturn)) static void start(char **given, size_t count, char **environment)
{
    const char *moved = move_in != NULL ? move_in() : NULL;
    unsigned newest = 0;
    const char *why = unfit(&newest);
    program = joined(root, "/", find('P'));
    if (valued(environment, "STACKPROOF_PACK_EXPLAIN") != NULL) {
        explain(moved, why, newest);
    }
    const char *lacks = spared(environment, why != NULL);
    char *loader = program;
    const char **arguments = (const char **)room((count + EXTRA + 1) * sizeof *arguments);
    size_t place = 0;
    char *name = shown_name(count > 0 ? given[0] : entry);
    if (why != NULL) {
        if (find('L') == NULL) {
            stop("this pack cannot run here, and has no loader of its own: ", why,
                 "pack it again, with the C library of the machine that packs");
        }
        loader = joined(root, "/", find('L'));
        char *folder = joined(root, "/", find('D'));
        if (lacks != NULL) {
            folder = joined(folder, ":", joined(root, "/", find('S')));
        }
        const char *words[] = {loader, "--argv0", name, "--library-path", folder, program};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            arguments[place++] = words[i];
        }
    } else {
        arguments[place++] = name;
    }
    for (const char *record = table; *record != '\0'; record = next(record)) {
        if (*record == 'X' && place < EXTRA) {
            arguments[place++] = filled(record + 1);
        }
    }
    for (size_t i = 1; i < count; i++) {
        arguments[place++] = given[i];
    }
    arguments[place] = NULL;
    long fault = call(SYS_execve, (long)loader, (long)arguments, (long)environment, 0);
    stop(cause(fault), loader, "unpack the pack again, to a folder where programs may run");
}

void begin(long *stack)
{
    size_t count = (size_t)stack[0];
    char **given = (char **)(stack + 1);
    char **environment = given + count + 1;
    const char *started = started_without_rights(environment);
    find_entry(started);
    if (find('P') == NULL || find('U') == NULL) {
        stop("this file is no entry point yet: ", entry, "make a pack with `stackproof pack`");
    }
    find_root(find('U'));
    start(given, count, changed(environment));
}
