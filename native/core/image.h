/* An image file, opened once with the rights of the user who wants it; only this descriptor is
 * used from then on, so that nothing can be swapped between check and use. */
#ifndef STACKPROOF_IMAGE_H
#define STACKPROOF_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "superblock.h"

/* The user whose rights count where a daemon of root opens an image for them. */
struct sp_identity {
    uid_t user;
    gid_t group;
    size_t group_count;
    const gid_t *groups; /* supplementary ones */
};

/* An open image; `descriptor` is read-only and closed on exec. */
struct sp_image {
    int descriptor;
    uint64_t size;
    dev_t device; /* of the file system, with `inode` the file itself */
    ino_t inode;
    uint64_t filesystem; /* the kind of file system that it lies on: statfs(2), f_type */
    struct sp_superblock superblock;
};

/* Opens a regular file and checks its superblock. The path is followed in the namespaces of this
 * process alone: sp_walk. With `as`, the calling thread (of root; no other thread) takes on these
 * ids for as long as that lasts, and no capability of root is in effect meanwhile, unless they are
 * those of root itself. Without, its rights are used as they are. Fails with image-missing,
 * -unreadable, -not-squashfs, -truncated; with not-permitted when the ids did not take. */
int sp_image_open(const char *path, const struct sp_identity *as, struct sp_image *image,
                  struct sp_error *error);

/* Closes an image; harmless where it is closed (`descriptor` -1). */
void sp_image_close(struct sp_image *image);

#endif
