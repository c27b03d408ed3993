/* Paths inside of a container's root: links never lead out of it. Linux 5.6 and newer (openat2). */
#ifndef STACKPROOF_INSIDE_H
#define STACKPROOF_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/* Opens a path by O_PATH as if `root` were the root folder; `flags` are more of them, such as
 * O_DIRECTORY. Returns -1 and sets errno. */
int sp_inside_open(int root, const char *path, uint64_t flags);

/* Opens a regular file, found by `sp_inside_open`, for reading; devices and FIFOs are never opened.
 * Returns -1 and sets errno. */
int sp_inside_reopen(int found, uint64_t *size);

/* Reads a file whole, with an end behind it. Returns the text, to be freed, or NULL where there is
 * none, or where it is longer than `most`. */
char *sp_inside_read(int root, const char *path, size_t most, size_t *length);

/* Opens a folder, and makes what is missing of it. Fails with mount-point-missing. */
int sp_inside_make(int root, const char *path, struct sp_error *error);

/* Returns the number of the mount that an open file or folder lies on, or -1. */
long sp_inside_mount_id(int descriptor);

/* Returns whether what is mounted on an open file or folder is also seen elsewhere, as in another
 * container or on the host; also where that cannot be told. */
bool sp_inside_is_shared(int descriptor);

#endif
