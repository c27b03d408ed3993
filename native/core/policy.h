/* What an administrator lets users mount with privileges: /etc/stackproof/mount.conf.
 *
 *     mount-point = /user-environment       this folder and what is inside of it; may be repeated
 *     image-folder = /apps/images           only images below it; may be repeated; default: any
 *     image-owner = 0                       only images of this user (a number), not writable for
 *                                           group and others; may be repeated; default: any
 *     image-filesystem = 0x1234             images on this kind of file system too (f_type of
 *                                           statfs(2)); may be repeated; usual ones are built in
 *     images-per-command = 64               at most; also for each step of Slurm
 *     image-memory = 256                    MiB that the kernel may need for them, by estimate
 *     loop-devices-per-user = 128           at most that this user's images hold on the machine
 *     unprivileged = yes                    `no`: do not offer squashfuse in a user namespace
 *
 * `#` begins a comment. Unknown keys, bad values and paths of the system are errors, and with an
 * error nothing is mounted. Without the file, the mount points are /user-environment and
 * /user-tools. The file and its folder must belong to root and be writable for nobody else. */
#ifndef STACKPROOF_POLICY_H
#define STACKPROOF_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "error.h"
#include "image.h"

enum { SP_POLICY_ROWS = 64, SP_POLICY_BYTES = 64 * 1024 };

#define SP_POLICY_NAME "mount.conf"

struct sp_policy {
    size_t mount_point_count;
    const char *mount_points[SP_POLICY_ROWS];
    size_t image_folder_count;
    const char *image_folders[SP_POLICY_ROWS];
    size_t image_owner_count;
    uid_t image_owners[SP_POLICY_ROWS];
    size_t filesystem_count;
    uint64_t filesystems[SP_POLICY_ROWS];
    unsigned images_per_command;
    unsigned image_memory_mib;
    unsigned loops_per_user;
    bool unprivileged;
    char *memory;
};

/* Reads SP_POLICY_NAME in `folder` with the rights of this thread. The built-in default is taken
 * when the file or the folder does not exist, and for no other reason. Fails with invalid-value
 * and not-permitted (wrong owner or mode, or unreadable). Free it when this returned 0. */
int sp_policy_load(const char *folder, struct sp_policy *policy, struct sp_error *error);

/* Parses the text of such a file; `path` is for messages. Free it when this returned 0. */
int sp_policy_parse(const char *text, size_t length, const char *path, struct sp_policy *policy,
                    struct sp_error *error);

void sp_policy_free(struct sp_policy *policy);

/* Fails (not-permitted) unless the policy has the normal path `mount_point`, or one around it. */
int sp_policy_check_mount_point(const struct sp_policy *policy, const char *mount_point,
                                struct sp_error *error);

/* Fails (not-permitted) unless the policy takes the open image. Where the file lies and whose it
 * is, is asked of the kernel by descriptor; `path` is for messages. FUSE is refused in any case:
 * who serves it says whose a file is, and the kernel would wait for them with its locks held. */
int sp_policy_check_image(const struct sp_policy *policy, const struct sp_image *image,
                          const char *path, struct sp_error *error);

/* Fails (not-permitted) where so many images, which need so many bytes of the kernel, are too much.
 */
int sp_policy_check_load(const struct sp_policy *policy, size_t images, uint64_t memory,
                         struct sp_error *error);

#endif
