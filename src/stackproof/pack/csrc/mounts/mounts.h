/* Something mounted once on a node, in a namespace that all ranks of a user join. */
#ifndef STACKPROOF_MOUNTS_H
#define STACKPROOF_MOUNTS_H

#include "../entry.h"

/* What is to be mounted; every program that uses this has its own three. */

/* Whether it is there for a process whose root is `around`, such as `/proc/1/root`; "" for this. */
int is_in_place(const char *around);
/* Make namespaces, and mount it there. */
void put_in_place(void);
/* Say what to do where no namespace can be made. */
const char *without_namespaces(void);

/* meeting.c: join the namespaces of a process of this user that has it already, or put it in place.
 * `what` tells it from all else. Return how, in words. */
const char *meet(const char *what);

/* namespace.c: the right to mount, in a user namespace if need be, and mounts of one's own. */
void gain_rights(void);
void leave_mounts(void);
/* See what process `pid` sees; 0 where that has gone. */
int enter(const char *pid);
/* Remember the working folder, and go back to it: namespaces change what it is. */
void remember_folder(void);
void return_to_folder(void);

/* cover.c: let a folder be there that this machine does not have, for this namespace alone. */
void make_folder(const char *path);

/* Mount by the system call of that name; stop with a sentence where that fails. */
void mount_at(const char *source, const char *target, const char *kind, unsigned long flags,
           const char *options);
/* Stop, saying which error the kernel gave. */
__attribute__((noreturn)) void stop_at(const char *what, const char *which, long fault,
                                       const char *hint);
long open_at(const char *path, long flags);
char *text_of(unsigned long number);

#endif
