#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"

enum {
    TRIES = 256,
    TRIES_WITHOUT_PAUSE = 16, /* the other program is done by then, unless there are many */
    PAUSE_NANOSECONDS = 1000000,
    LOOP_DEVICE_MAJOR = 7, /* linux/major.h */
    SECTOR_BYTES = 512,
};

static int not_permitted(struct sp_error *error, const char *device, int fault)
{
    (void)sp_fail(error, fault == ENOENT ? SP_MOUNT_FAILED : SP_NOT_PERMITTED,
                  "cannot use loop device `%s`: %s", device, strerror(fault));
    return sp_hint(error, "the kernel module `loop` must be loaded, and containers given its "
                          "devices; or mount with squashfuse: --way=userns");
}

static struct loop_info64 information(const char *path)
{
    struct loop_info64 info = {.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR};
    (void)snprintf((char *)info.lo_file_name, sizeof info.lo_file_name, "%s", path);
    return info;
}

/* Sets a device up by two calls, as before Linux 5.8. Only between them does the device outlive a
 * process that is killed. */
static int configure_in_two_steps(int device, int image, const struct loop_info64 *info)
{
    if (ioctl(device, LOOP_SET_FD, image) != 0) {
        return -1;
    }
    if (ioctl(device, LOOP_SET_STATUS64, info) != 0) {
        int fault = errno;
        (void)ioctl(device, LOOP_CLR_FD, 0);
        errno = fault;
        return -1;
    }
    return 0;
}

static int configure(int device, int image, const char *path, unsigned flags)
{
    struct sp_loop_config config = {
        .descriptor = (uint32_t)image,
        .info = information(path),
    };
    if ((flags & SP_OLD_KERNEL) == 0) {
        if (ioctl(device, SP_LOOP_CONFIGURE, &config) == 0) {
            return 0;
        }
        if (errno != EINVAL && errno != ENOTTY && errno != ENOSYS) {
            return -1;
        }
    }
    return configure_in_two_steps(device, image, &config.info);
}

/* Opens the device that the kernel says is free; -1 with errno. */
static int open_free_device(int control, char *name)
{
    struct stat state;
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) {
        return -1;
    }
    (void)snprintf(name, SP_DEVICE_NAME_BYTES, "/dev/loop%d", number);
    int device = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (device < 0) {
        return -1;
    }
    if (fstat(device, &state) != 0 || !S_ISBLK(state.st_mode) ||
        major(state.st_rdev) != LOOP_DEVICE_MAJOR) {
        (void)close(device);
        errno = ENODEV;
        return -1;
    }
    return device;
}

static bool another_was_faster(int fault)
{
    return fault == EBUSY || fault == ENXIO || fault == EINTR;
}

static int attach(int control, const struct sp_image *image, const char *path, unsigned flags,
                  struct sp_loop *loop)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NANOSECONDS};
    for (int attempt = 0; attempt < TRIES; attempt++) {
        int device = open_free_device(control, loop->name);
        if (device >= 0) {
            if (configure(device, image->descriptor, path, flags) == 0) {
                loop->descriptor = device;
                return 0;
            }
            int fault = errno;
            (void)close(device);
            errno = fault;
        }
        if (!another_was_faster(errno)) {
            return -1;
        }
        if (attempt >= TRIES_WITHOUT_PAUSE) {
            (void)nanosleep(&pause, NULL);
        }
    }
    errno = EBUSY;
    return -1;
}

int sp_loop_attach(const struct sp_image *image, const char *path, unsigned flags,
                   struct sp_loop *loop, struct sp_error *error)
{
    *loop = (struct sp_loop){.descriptor = -1};
    if (image->size % SECTOR_BYTES != 0) {
        (void)sp_fail(error, SP_MOUNT_FAILED,
                      "`%s` has %llu bytes; the kernel needs whole sectors of %d", path,
                      (unsigned long long)image->size, SECTOR_BYTES);
        return sp_hint(error, "make the image without `-nopad`, or use --way=userns");
    }
    int control = open("/dev/loop-control", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (control < 0) {
        return not_permitted(error, "/dev/loop-control", errno);
    }
    int result = attach(control, image, path, flags, loop);
    int fault = errno;
    (void)close(control);
    if (result == 0) {
        return 0;
    }
    if (fault == EACCES || fault == EPERM || fault == ENOENT || fault == ENODEV) {
        return not_permitted(error, loop->name[0] == '\0' ? "/dev/loop-control" : loop->name,
                             fault);
    }
    return sp_fail(error, SP_MOUNT_FAILED, "cannot attach `%s` to a loop device: %s", path,
                   strerror(fault));
}

void sp_loop_release(struct sp_loop *loop)
{
    if (loop->descriptor >= 0) {
        (void)close(loop->descriptor);
    }
    loop->descriptor = -1;
}
