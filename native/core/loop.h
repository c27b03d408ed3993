/* A loop device: the block device through which the kernel reads an image file. */
#ifndef STACKPROOF_LOOP_H
#define STACKPROOF_LOOP_H

#include "error.h"
#include "image.h"

enum { SP_DEVICE_NAME_BYTES = 32 };

/* For tests: the calls of Linux before 5.8 (loop), 5.6 (openat2) and 5.2 (fsopen). */
enum { SP_OLD_KERNEL = 1 };

/* A device that holds an image, and the descriptor that keeps it. The device is read-only and is
 * freed by the kernel with its last user: this descriptor, its copies in forked processes, and
 * every mount of it. So it needs no cleaning up, however the process ends. */
struct sp_loop {
    int descriptor;
    char name[SP_DEVICE_NAME_BYTES];
};

/* Attaches an image to a free device. Needs the right to read /dev/loop-control and /dev/loopN,
 * and no other. `path` is for messages and is what losetup(8) shows. `flags`: 0 or SP_OLD_KERNEL.
 * Fails with not-permitted and mount-failed. */
int sp_loop_attach(const struct sp_image *image, const char *path, unsigned flags,
                   struct sp_loop *loop, struct sp_error *error);

/* Lets the device go; a mount of it stays. Harmless where it is gone (`descriptor` -1). */
void sp_loop_release(struct sp_loop *loop);

#endif
