/* What a policy says to mount points and images. */
#include "policy.h"

#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "path.h"
#include "text.h"

/* File systems whose word on owners and contents is that of the kernel or of the site's servers, by
 * f_type. Those not in linux/magic.h: statfs(2), and the clients' own headers. */
static const uint64_t built_in_filesystems[] = {
    EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
    RAMFS_MAGIC,       F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
    SQUASHFS_MAGIC,    EROFS_SUPER_MAGIC_V1, ISOFS_SUPER_MAGIC,
    NFS_SUPER_MAGIC,   AFS_SUPER_MAGIC,  CEPH_SUPER_MAGIC,  CIFS_SUPER_MAGIC,
    SMB2_SUPER_MAGIC,
    0x0BD00BD0, /* Lustre */
    0x47504653, /* GPFS, Storage Scale */
    0x19830326, /* BeeGFS */
    0x2FC12FC1, /* ZFS */
    0xCA451A4E, /* bcachefs */
    0xAAD7AAEA, /* PanFS */
};

enum { OTHERS_MAY_WRITE = S_IWGRP | S_IWOTH };

static const uint64_t MIB = UINT64_C(1024) * UINT64_C(1024);

int sp_policy_check_mount_point(const struct sp_policy *policy, const char *mount_point,
                                struct sp_error *error)
{
    for (size_t index = 0; index < policy->mount_point_count; index++) {
        if (sp_path_is_inside(mount_point, policy->mount_points[index])) {
            return 0;
        }
    }
    (void)sp_fail(error, SP_NOT_PERMITTED, "`%s` is not a mount point of this site", mount_point);
    if (policy->mount_point_count == 0) {
        return sp_hint(error, "the administrator's list, `" SP_POLICY_NAME "`, names none");
    }
    bool several = policy->mount_point_count > 1;
    return sp_hint(error, "permitted %s `%s`%s%s%s%s", several ? "are" : "is",
                   policy->mount_points[0], several ? " and `" : "",
                   several ? policy->mount_points[1] : "", several ? "`" : "",
                   policy->mount_point_count > 2 ? ", and others: see " SP_POLICY_NAME : "");
}

static bool is_in_a_folder(const struct sp_policy *policy, int descriptor)
{
    char link[64];
    char real[PATH_MAX];
    sp_text_numbered(link, sizeof link, "/proc/self/fd/", (unsigned long)descriptor);
    ssize_t length = readlink(link, real, sizeof real - 1);
    if (length <= 0) {
        return false; /* also a path of more than PATH_MAX bytes */
    }
    real[length] = '\0';
    for (size_t index = 0; index < policy->image_folder_count; index++) {
        if (sp_path_is_inside(real, policy->image_folders[index])) {
            return true;
        }
    }
    return false;
}

static bool is_of_an_owner(const struct sp_policy *policy, int descriptor)
{
    struct stat state;
    if (fstat(descriptor, &state) != 0 || (state.st_mode & OTHERS_MAY_WRITE) != 0) {
        return false;
    }
    for (size_t index = 0; index < policy->image_owner_count; index++) {
        if (state.st_uid == policy->image_owners[index]) {
            return true;
        }
    }
    return false;
}

static bool is_on_a_filesystem(const struct sp_policy *policy, uint64_t filesystem)
{
    size_t count = sizeof built_in_filesystems / sizeof built_in_filesystems[0];
    for (size_t index = 0; index < count; index++) {
        if (built_in_filesystems[index] == filesystem) {
            return true;
        }
    }
    for (size_t index = 0; index < policy->filesystem_count; index++) {
        if (policy->filesystems[index] == filesystem) {
            return true;
        }
    }
    return false;
}

int sp_policy_check_image(const struct sp_policy *policy, const struct sp_image *image,
                          const char *path, struct sp_error *error)
{
    char kind[128];
    const char *fault = NULL;
    if (!is_on_a_filesystem(policy, image->filesystem)) {
        (void)snprintf(kind, sizeof kind,
                       "the file system that it lies on, of kind 0x%llx, is not one for images",
                       (unsigned long long)image->filesystem);
        fault = image->filesystem == FUSE_SUPER_MAGIC ? "it lies on a file system of FUSE" : kind;
    } else if (policy->image_folder_count > 0 && !is_in_a_folder(policy, image->descriptor)) {
        fault = "it is not in one of the folders that this site names";
    } else if (policy->image_owner_count > 0 && !is_of_an_owner(policy, image->descriptor)) {
        fault = "its owner is not one that this site trusts, or others may write to it";
    }
    if (fault == NULL) {
        return 0;
    }
    (void)sp_fail(error, SP_NOT_PERMITTED, "image `%s` may not be mounted by the kernel: %s", path,
                  fault);
    return policy->unprivileged ? sp_hint(error, "mount it without privileges: --way=userns")
                                : sp_hint(error, "see " SP_POLICY_NAME " of this site");
}

int sp_policy_check_load(const struct sp_policy *policy, size_t images, uint64_t memory,
                         struct sp_error *error)
{
    uint64_t wanted = (memory + MIB - 1) / MIB;
    if (images > policy->images_per_command) {
        (void)sp_fail(error, SP_NOT_PERMITTED, "%zu images are more than the %u of this site",
                      images, policy->images_per_command);
    } else if (wanted > policy->image_memory_mib) {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "the kernel would need about %llu MiB for these images, %u are permitted",
                      (unsigned long long)wanted, policy->image_memory_mib);
    } else {
        return 0;
    }
    return sp_hint(error, "put what belongs together into one image, or make them with smaller "
                          "blocks; the limits are in " SP_POLICY_NAME);
}
