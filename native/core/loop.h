/* A loop device: the block device through which the kernel reads an image file. */
#ifndef STACKPROOF_LOOP_H
#define STACKPROOF_LOOP_H

#include "error.h"
#include "image.h"

enum { SP_DEVICE_NAME_BYTES = 32 };

/* For tests: the calls of Linux before 5.8 (loop), 5.6 (openat2) and 5.2 (fsopen). */
enum { SP_OLD_KERNEL = 1 };

/* For sp_loop_attach: take no device that has the file already. */
enum { SP_OWN_DEVICE = 2 };

/* A device that holds an image, and the descriptor that keeps it. The device is read-only and is
 * freed by the kernel with its last user: this descriptor, its copies in forked processes, and
 * every mount of it. So it needs no cleaning up, however the process ends. */
struct sp_loop {
    int descriptor;
    char name[SP_DEVICE_NAME_BYTES];
};

/* For whom a device is attached, and how many they may have on this machine. */
struct sp_loop_owner {
    uid_t user;
    unsigned most;
};

/* Attaches an image to a device: one that has the same file from here already, so that the kernel
 * holds a file system once, however many mount it; else a free one. Devices that were made for a
 * rush and are idle are given back to the kernel. Needs the right to read /dev/loop-control and
 * /dev/loopN, and no other. `path` is for messages. `owner`: NULL for root, who has no limit.
 * `flags`: SP_OLD_KERNEL, SP_OWN_DEVICE. Fails with not-permitted and mount-failed. */
int sp_loop_attach(const struct sp_image *image, const char *path,
                   const struct sp_loop_owner *owner, unsigned flags, struct sp_loop *loop,
                   struct sp_error *error);

/* Lets the device go; a mount of it stays. Harmless where it is gone (`descriptor` -1). */
void sp_loop_release(struct sp_loop *loop);

#endif
