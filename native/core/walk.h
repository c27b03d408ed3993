/* Following a path that a user chose, without the doors that /proc has to other processes. */
#ifndef STACKPROOF_WALK_H
#define STACKPROOF_WALK_H

/* Opens what a path leads to, by O_PATH. Links are followed, but for the magic ones of proc(5), as
 * /proc/PID/cwd and /proc/PID/root: they lead past the rights of folders, and into what others have
 * mounted. -1 with errno, ELOOP for such a link. `flags`: 0 or SP_OLD_KERNEL (loop.h). */
int sp_walk(const char *path, unsigned flags);

#endif
