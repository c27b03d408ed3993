/* Walls around a program that parses what a stranger made: squashfuse. */
#ifndef STACKPROOF_CONFINE_H
#define STACKPROOF_CONFINE_H

/* Takes away from this process, and from what it becomes, all system calls but those that reading a
 * file and answering the kernel need (seccomp), and where the kernel has Landlock and `program` is
 * one of the system's, all files but `image`, the system's libraries and `program`. So no network,
 * no other process, no home folder, and no other program. No-new-privileges must be set. -1 where
 * the kernel has seccomp and refuses the filter. */
int confine(const char *program, int image);

#endif
