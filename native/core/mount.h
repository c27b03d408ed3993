/* Mounts: a private namespace, a mount point held by descriptor, an image or an overlay on it.
 *
 * All mounts are read-only, nosuid and nodev. The mount point is opened link-free and the mount is
 * made on the descriptor, so that what was checked is what is covered. */
#ifndef STACKPROOF_MOUNT_H
#define STACKPROOF_MOUNT_H

#include <stddef.h>

#include "error.h"
#include "loop.h"

/* Gives this thread (of a process with one, or one that does not share its file-system context) a
 * mount namespace from which nothing flows back. It and all that is mounted in it are gone with its
 * last process. Needs CAP_SYS_ADMIN. */
int sp_mount_namespace_enter(struct sp_error *error);

/* Opens an empty folder to mount on; no part of its path may be a link. Fails with
 * mount-point-missing, mount-point-occupied and bad-mount-point. Close `*point`. */
int sp_mount_point_open(const char *path, unsigned flags, int *point, struct sp_error *error);

/* Mounts a loop device's image on `point`. `*root` is the root folder of the mount, to be closed.
 */
int sp_mount_loop(const struct sp_loop *loop, const char *image, int point, unsigned flags,
                  int *root, struct sp_error *error);

/* Shows the union of several mounted trees on `point`, the first one above the others.
 * `mount_point` is for messages. Fails with mount-failed, with a hint where the kernel does not
 * permit it. */
int sp_mount_overlay(const int *roots, size_t count, int point, const char *mount_point,
                     unsigned flags, struct sp_error *error);

/* Returns 1 where an open folder is empty, 0 where not, -1 with errno. */
int sp_folder_is_empty(int folder);

/* Opens the root folder of what is mounted last on a mount point; -1 with errno. */
int sp_mount_root(const char *mount_point, unsigned flags);

#endif
