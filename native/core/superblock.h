/* The first 96 bytes of a SquashFS image, and whether the file can be one.
 *
 * Layout and rules: struct squashfs_super_block of linux/fs/squashfs/squashfs_fs.h (4.0, little
 * endian) and squashfs_fill_super, which checks the same tables in the same order. The check keeps
 * damaged and foreign files from the kernel and gives them a clear message. It is no defence
 * against an owner who changes the file while it is mounted: see SECURITY.md. */
#ifndef STACKPROOF_SUPERBLOCK_H
#define STACKPROOF_SUPERBLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum { SP_SUPERBLOCK_BYTES = 96 };

/* What an image says of itself; sizes in bytes. */
struct sp_superblock {
    uint32_t inodes;
    uint32_t block_size;
    uint16_t compressor;
    uint64_t bytes_used;
};

/* Checks the superblock that a file of `file_size` bytes begins with. `length` bytes of it are in
 * `head`; `path` is for messages. Fails with image-not-squashfs or image-truncated. */
int sp_superblock_parse(const unsigned char *head, size_t length, uint64_t file_size,
                        const char *path, struct sp_superblock *superblock, struct sp_error *error);

/* Reads and checks the superblock of an open file; fails also with image-unreadable. */
int sp_superblock_read(int descriptor, uint64_t file_size, const char *path,
                       struct sp_superblock *superblock, struct sp_error *error);

#endif
