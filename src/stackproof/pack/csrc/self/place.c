/* The image in this file mounted: by the kernel, by squashfuse, or unpacked to memory.
 *
 * All three are in a namespace that the ranks of a node share, and gone with the last of them.
 */
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>

static const char *way = "";

const char *mounted_by(void)
{
    return way;
}

static int serves(const char *place)
{
    long file = open_at(place, O_RDONLY | O_DIRECTORY);
    char list[1024];
    long count = call(SYS_getdents64, file, (long)list, sizeof list, 0);
    call(SYS_close, file, 0, 0, 0);
    return count > 0;
}

/* From inside a folder that answers: one whose squashfuse has ended does not. For a look from
 * outside a refusal is an answer: what FUSE mounted in another user namespace refuses who is not
 * in it (fuse_allow_current_process in Linux, fs/fuse/dir.c). */
int is_in_place(const char *around)
{
    if (around[0] == '\0') {
        return serves(find('J'));
    }
    const char *programs = joined(around, find('J'), "/bin");
    long fault = call(SYS_faccessat, AT_FDCWD, (long)programs, 0, 0);
    return fault == 0 || fault == -EACCES;
}

static int mount_by_fuse(const char *place, long device, long start)
{
    if (device < 0) {
        return 0;
    }
    const char *user = text_of((unsigned long)call(SYS_geteuid, 0, 0, 0, 0));
    const char *group = text_of((unsigned long)call(SYS_getegid, 0, 0, 0, 0));
    const char *ids = joined(joined(",rootmode=40000,user_id=", user, ",group_id="), group,
                             ",default_permissions,allow_other");
    const char *options = joined("fd=", text_of((unsigned long)device), ids);
    long fault = call_with_five(SYS_mount, (long)"stackproof-pack", (long)place,
                                (long)"fuse.squashfuse", MS_RDONLY | MS_NOSUID | MS_NODEV,
                                (long)options);
    if (fault != 0) {
        return 0;
    }
    call(SYS_write, start, (long)"g", 1, 0);
    call(SYS_close, device, 0, 0, 0); /* squashfuse alone holds it: if it ends, nobody waits */
    if (serves(place)) {
        return 1;
    }
    call(SYS_umount2, (long)place, MNT_DETACH, 0, 0);
    return 0;
}

static void unpack_to_memory(const char *place)
{
    mount_at("stackproof-pack", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
    if (!unpack(place)) {
        stop("the pack cannot be unpacked to memory: ", place,
             "`--pack-extract FOLDER` as the first word unpacks it to a folder");
    }
    mount_at(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

void put_in_place(void)
{
    const char *place = find('J');
    const char *also = find('M');
    gain_rights();
    long device = has_tool("squashfuse") ? open_at("/dev/fuse", O_RDWR) : -1;
    long start = device < 0 ? -1 : start_server(device);
    leave_mounts();
    make_folder(place);
    if (also != NULL) {
        make_folder(also);
    }
    if (mount_by_loop(place)) {
        way = " and mounted by the kernel";
    } else if (mount_by_fuse(place, device, start)) {
        way = " and mounted by squashfuse";
    } else {
        unpack_to_memory(place);
        way = " and unpacked to memory";
    }
    call(SYS_close, start, 0, 0, 0); /* a server that nobody needs ends */
    if (also != NULL) {
        mount_at(joined(place, "/stack", ""), also, NULL, MS_BIND | MS_REC, NULL);
    }
}
