/* System calls and ioctls that the C libraries and headers of older systems lack.
 *
 * The numbers are the same on every architecture (Linux, include/uapi/asm-generic/unistd.h); the
 * structures are of linux/openat2.h, linux/mount.h and linux/loop.h. The names here are ours, so
 * that newer headers do not clash with them. On a kernel without such a call, errno is ENOSYS. */
#ifndef STACKPROOF_KERNEL_H
#define STACKPROOF_KERNEL_H

#include <linux/loop.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum {
    SP_RESOLVE_NO_MAGICLINKS = 0x02,
    SP_RESOLVE_NO_SYMLINKS = 0x04,
    SP_RESOLVE_IN_ROOT = 0x10,
    SP_FSOPEN_CLOEXEC = 1,
    SP_FSCONFIG_SET_FLAG = 0,
    SP_FSCONFIG_SET_STRING = 1,
    SP_FSCONFIG_CMD_CREATE = 6,
    SP_FSMOUNT_CLOEXEC = 1,
    SP_MOUNT_ATTRIBUTES = 0x01 | 0x02 | 0x04,   /* MOUNT_ATTR_RDONLY, _NOSUID, _NODEV */
    SP_MOVE_MOUNT_BY_DESCRIPTORS = 0x04 | 0x40, /* MOVE_MOUNT_F_EMPTY_PATH, _T_EMPTY_PATH */
    SP_OPEN_TREE_CLONE = 1,
    SP_OPEN_TREE_RECURSIVE = 0x8000,  /* AT_RECURSIVE */
    SP_LOOP_CONFIGURE = 0x4C0A,
    SP_VERITY_SHA256 = 1, /* FS_VERITY_HASH_ALG_SHA256 */
    SP_SHA256_BYTES = 32,
};

/* struct fsverity_digest of linux/fsverity.h since Linux 5.4, and its ioctl. */
struct sp_verity_measure {
    uint16_t algorithm;
    uint16_t size; /* room for the digest; then its length */
    uint8_t digest[64];
};
#define SP_MEASURE_VERITY _IOWR('f', 134, uint32_t)

/* struct loop_config of linux/loop.h since Linux 5.8. */
struct sp_loop_config {
    uint32_t descriptor;
    uint32_t block_size;
    struct loop_info64 info;
    uint64_t reserved[8];
};

/* Opens a path from the root folder by O_PATH, without following any link. */
int sp_openat2_no_links(const char *path, uint64_t flags);

/* Opens a path; links are followed, but for the magic ones of proc(5). */
int sp_openat2_no_magic(const char *path, uint64_t flags);

/* Opens a path as if the folder `root` were the root folder, for links too. */
int sp_openat2_inside(int root, const char *path, uint64_t flags);

/* Returns a mount of its own, attached nowhere, of a file or folder below `folder`; links are not
 * followed. `path` may be empty. It is read-only, and so are the mounts below it. */
int sp_clone_read_only(int folder, const char *path);

/* Closes all descriptors from one to another. */
int sp_close_range(unsigned first, unsigned last);

int sp_fsopen(const char *kind);
int sp_fsconfig(int context, unsigned command, const char *key, const char *value);
int sp_fsmount(int context);
int sp_move_mount(int mount, int target);

#endif
