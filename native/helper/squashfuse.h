/* The program squashfuse: found, and started as nobody's child. */
#ifndef STACKPROOF_SQUASHFUSE_H
#define STACKPROOF_SQUASHFUSE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path of squashfuse, the low-level one if there is a choice; PATH is searched, then
 * /usr/local/bin and /usr/bin. False if there is none. Only for a process without privileges. */
bool squashfuse_find(char *path, size_t room);

/* Starts it for an image and an open /dev/fuse. It waits until a byte is sent to the socket that is
 * returned, and ends when that is closed without one. Its messages go to `complaints`. It holds
 * nothing of the caller: no descriptor, folder, terminal or variable. Returns -1 with errno. */
int squashfuse_start(const char *program, int image, int fuse, int complaints);

#endif
