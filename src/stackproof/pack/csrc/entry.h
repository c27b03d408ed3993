/* The parts of an entry point of a pack: entry.c says what it does. */
#ifndef STACKPROOF_ENTRY_H
#define STACKPROOF_ENTRY_H

#include <stddef.h>
#include <sys/syscall.h>

enum { PATH_BYTES = 4096, ARENA_BYTES = 1 << 20 };

/* Where the kernel starts a program, with arguments, environment and facts on the stack. */
__attribute__((noreturn, used)) void begin(long *stack);

/* text.c: the kernel called, texts, and the memory that they lie in. */

/* Everything that is written lies together: each further page of memory costs a page fault. */
extern char arena[ARENA_BYTES];
extern size_t used;

long call(long number, long a, long b, long c, long d);
long call_with_five(long number, long a, long b, long c, long d, long e);
size_t length(const char *text);
void say(const char *text);
void say_number(unsigned number);
__attribute__((noreturn)) void stop(const char *what, const char *which, const char *hint);
/* Return what follows a name that a text begins with; NULL where it does not. */
const char *after(const char *text, const char *name);
/* Append to the arena, which begins a text or goes on with one; `end_text` ends it. */
char *kept(const char *text, size_t count);
char *end_text(char *begin);
void *room(size_t bytes);
/* Return texts one after another, as a path. */
char *joined(const char *first, const char *second, const char *third);
/* Return what a link points to, empty for what is none; it takes no more of the arena than that. */
char *target_of(const char *link);

/* table.c: the table of this entry point, and the folder of the pack, which it speaks of. */

#ifdef STACKPROOF_HOSTED /* a test fills it */
extern char table[];
#else
extern const char table[];
#endif
extern char *root;

/* Return the next record of the table; a text of no letter at its end. */
const char *next(const char *record);
/* Return the first text with a letter; NULL where there is none. */
const char *find(char letter);
/* Return a text of the table, with the folder of the pack put in. */
char *filled(const char *text);
unsigned long number_of(const char *text);

/* libc.c: why this machine's own loader cannot be used, NULL where it can, and which GLIBC_2.x this
 * machine has, left alone where that is not looked at. */
const char *unfit(unsigned *newest);
/* A library that the pack has to spare and this machine lacks, NULL for none; and the version that
 * its own one lacks, NULL where it has no such library at all. */
const char *lacking(const char **version);

/* environment.c: the environment as the table changes it. */
const char *valued(char **environment, const char *name);
char **changed(char **before);
/* Let the loader look in the folder of what the pack has to spare, before those of this machine but
 * after others that the user named; or there no longer, where another machine needed it. */
void look_in_spare(char **environment, int wanted);
/* Return the name that the kernel started this file by, NULL where it does not tell; stop where the
 * file gives more rights than its user has. Nothing is done before this was asked. */
const char *started_without_rights(char **environment);

/* tier1/place.c, which entry points of tier 0 do not have: let the stack be where it was built for,
 * and return how. */
__attribute__((weak)) const char *move_in(void);

#endif
