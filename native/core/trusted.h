/* Files and folders that only root can have written: what an administrator says. */
#ifndef STACKPROOF_TRUSTED_H
#define STACKPROOF_TRUSTED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "error.h"

/* In a user namespace of a user's own, where nobody has rights: root, whose number has no name
 * there, is believed as well. */
enum { SP_TRUSTED_UNMAPPED = 1 };

/* Returns whether what `state` is of belongs to root and is writable for nobody else. An access
 * list that lets others write shows in the bits of the group. */
bool sp_trusted_state(const struct stat *state, unsigned flags);

/* Opens `name` in the folder `parent` (or AT_FDCWD) by O_PATH, no link. `folder` is -1 where it
 * does not exist; fails with not-permitted where it is not root's alone. `path` is for messages. */
int sp_trusted_folder(int parent, const char *name, const char *path, unsigned flags, int *folder,
                      struct sp_error *error);

/* Reads a file in such a folder, `most` bytes and one more, which shows one that is too long.
 * `text` is NULL where it does not exist, otherwise to be freed; a NUL stands behind `length`. */
int sp_trusted_read(int folder, const char *name, const char *path, size_t most, unsigned flags,
                    char **text, size_t *length, struct sp_error *error);

#endif
