/* The parts of a pack that is one file: launch.c says what it does. */
#ifndef STACKPROOF_SELF_H
#define STACKPROOF_SELF_H

#include "../mounts/mounts.h"

/* A part of this file: where it begins, and its bytes. */
struct part {
    unsigned long offset;
    unsigned long bytes;
};

/* launch.c */
extern long own_file;
extern struct part image;
/* Unpack the image to a folder; 0 where that fails, which is told. */
int unpack(const char *folder);

/* place.c: what mounted the image, in words; "" where another process did. */
const char *mounted_by(void);

/* serve.c: programs that this file carries, run from memory. */

/* Become one of them; return where this file has none such. `last` are its arguments. */
void become_tool(const char *name, const char *const *last);
int has_tool(const char *name);
/* Start squashfuse for the image, as nobody's child; it waits for a byte on the pipe that is
 * returned, and serves what `device` is mounted as. */
long start_server(long device);

/* loop.c: mount the image by the kernel; 0 where that is not possible. */
int mount_by_loop(const char *place);

#endif
