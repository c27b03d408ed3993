/* The image in this file mounted by the kernel, over a loop device that ends with the mount. */
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/statfs.h>

enum { LOOP_TRIES = 64 };

/* The kernel must not wait for a user's program to give it the image. */
static int is_on_fuse(void)
{
    struct statfs state;
    return call(SYS_fstatfs, own_file, (long)&state, 0, 0) != 0 ||
           (unsigned long)state.f_type == FUSE_SUPER_MAGIC;
}

int mount_by_loop(const char *place)
{
    long control = is_on_fuse() ? -1 : open_at("/dev/loop-control", O_RDWR);
    for (int i = 0; control >= 0 && i < LOOP_TRIES; i++) {
        long number = call(SYS_ioctl, control, LOOP_CTL_GET_FREE, 0, 0);
        const char *name = joined("/dev/loop", text_of((unsigned long)number), "");
        long device = number < 0 ? -1 : open_at(name, O_RDONLY);
        if (device < 0) {
            break;
        }
        struct loop_config setting = {
            .fd = (unsigned)own_file,
            .info = {.lo_offset = image.offset,
                     .lo_sizelimit = image.bytes,
                     .lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR},
        };
        long fault = call(SYS_ioctl, device, LOOP_CONFIGURE, (long)&setting, 0);
        if (fault == 0) {
            fault = call_with_five(SYS_mount, (long)name, (long)place, (long)"squashfs",
                                   MS_RDONLY | MS_NOSUID | MS_NODEV, 0);
            call(SYS_close, device, 0, 0, 0); /* from here on the mount alone holds it */
            call(SYS_close, control, 0, 0, 0);
            return fault == 0;
        }
        call(SYS_close, device, 0, 0, 0);
        if (fault != -EBUSY) {
            break;
        }
    }
    call(SYS_close, control, 0, 0, 0);
    return 0;
}
