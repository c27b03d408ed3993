/* The program squashfuse: found, and started as nobody's child. */
#ifndef STACKPROOF_SQUASHFUSE_H
#define STACKPROOF_SQUASHFUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes the path of squashfuse, the low-level one if there is a choice; PATH is searched, then
 * /usr/local/bin and /usr/bin. False if there is none. Only for a process without privileges. */
bool squashfuse_find(char *path, size_t room);

/* One that waits for its mount. */
struct squashfuse {
    int start;     /* the socket whose end it waits at; -1: none */
    pid_t starter; /* the child that has started it, and ended */
};

/* Starts it for an image and an open /dev/fuse, confined (confine.h). It waits for squashfuse_go,
 * and ends without, once it is released. Its messages go to `complaints`. It holds nothing of the
 * caller: no descriptor, folder, terminal or variable. Returns -1 with errno. */
int squashfuse_start(const char *program, int image, int fuse, int complaints,
                     struct squashfuse *started);

/* Lets it serve: the image is mounted. Returns -1 with errno where it could not be started. */
int squashfuse_go(struct squashfuse *started);

/* Ends it where it still waits. */
void squashfuse_release(struct squashfuse *started);

#endif
