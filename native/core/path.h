/* Absolute paths as text. */
#ifndef STACKPROOF_PATH_H
#define STACKPROOF_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a part of the path is `.` or `..`. */
bool sp_path_has_dots(const char *path, size_t length);

/* Writes an absolute path without doubled and trailing slashes, and an end; returns its length.
 * `target` has room for `length` + 1 bytes and may be `path` itself. */
size_t sp_path_write_normal(const char *path, size_t length, char *target);

/* Returns whether a normal path is `folder`, also normal, or lies below it. */
bool sp_path_is_inside(const char *path, const char *folder);

#endif
