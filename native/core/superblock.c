#include "superblock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Offsets in the superblock. */
enum {
    AT_INODES = 4,
    AT_BLOCK_SIZE = 12,
    AT_FRAGMENTS = 16,
    AT_COMPRESSOR = 20,
    AT_BLOCK_LOG = 22,
    AT_IDS = 26,
    AT_MAJOR = 28,
    AT_MINOR = 30,
    AT_ROOT_INODE = 32,
    AT_BYTES_USED = 40,
    AT_ID_TABLE = 48,
    AT_XATTR_TABLE = 56,
    AT_INODE_TABLE = 64,
    AT_DIRECTORY_TABLE = 72,
    AT_FRAGMENT_TABLE = 80,
    AT_EXPORT_TABLE = 88,
};

enum {
    SMALLEST_BLOCK_LOG = 12,
    LARGEST_BLOCK_LOG = 20,
    LAST_COMPRESSOR = 6,
    METADATA_BYTES = 8192
};

static const uint64_t NO_TABLE = UINT64_MAX;

static uint64_t number(const unsigned char *head, size_t at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t index = bytes; index > 0; index--) {
        value = value << 8 | head[at + index - 1];
    }
    return value;
}

static int not_squashfs(struct sp_error *error, const char *path, const char *why)
{
    (void)sp_fail(error, SP_IMAGE_NOT_SQUASHFS, "`%s` is not a usable SquashFS image: %s", path,
                  why);
    return sp_hint(error, "make images with `stackproof build`");
}

static int truncated(struct sp_error *error, const char *path, uint64_t present, uint64_t wanted)
{
    (void)sp_fail(error, SP_IMAGE_TRUNCATED, "image `%s` is cut off: it has %llu of %llu bytes",
                  path, (unsigned long long)present, (unsigned long long)wanted);
    return sp_hint(error, "copy or build it again");
}

/* Returns whether the tables lie inside of the image, in the order in which the kernel wants them:
 * inodes, directories, fragments, export, ids, extended attributes. */
static bool tables_are_sound(const unsigned char *head, uint64_t bytes_used)
{
    static const size_t from_the_end[] = {AT_XATTR_TABLE,    AT_ID_TABLE,        AT_EXPORT_TABLE,
                                          AT_FRAGMENT_TABLE, AT_DIRECTORY_TABLE, AT_INODE_TABLE};
    uint64_t next = bytes_used;
    for (size_t index = 0; index < sizeof from_the_end / sizeof from_the_end[0]; index++) {
        size_t at = from_the_end[index];
        uint64_t start = number(head, at, 8);
        bool may_lack = at == AT_XATTR_TABLE || at == AT_EXPORT_TABLE ||
                        (at == AT_FRAGMENT_TABLE && number(head, AT_FRAGMENTS, 4) == 0);
        if (start == NO_TABLE && may_lack) {
            continue;
        }
        /* An image without fragments, or with empty folders alone, has tables of no bytes. */
        bool may_be_empty = at == AT_FRAGMENT_TABLE || at == AT_DIRECTORY_TABLE;
        if (start < SP_SUPERBLOCK_BYTES || start > next || (start == next && !may_be_empty)) {
            return false;
        }
        next = start;
    }
    uint64_t inodes_start = number(head, AT_INODE_TABLE, 8);
    uint64_t root = number(head, AT_ROOT_INODE, 8);
    return number(head, AT_IDS, 2) > 0 && (root & 0xFFFF) < METADATA_BYTES &&
           (root >> 16) < number(head, AT_DIRECTORY_TABLE, 8) - inodes_start;
}

int sp_superblock_parse(const unsigned char *head, size_t length, uint64_t file_size,
                        const char *path, struct sp_superblock *superblock, struct sp_error *error)
{
    if (length < 4) {
        return not_squashfs(error, path, length == 0 ? "it is empty" : "it is too short");
    }
    if (memcmp(head, "sqsh", 4) == 0) {
        return not_squashfs(error, path, "it is big-endian, which Linux no longer reads");
    }
    if (memcmp(head, "hsqs", 4) != 0) {
        return not_squashfs(error, path, "it does not begin with `hsqs`");
    }
    if (length < SP_SUPERBLOCK_BYTES) {
        return truncated(error, path, length, SP_SUPERBLOCK_BYTES);
    }
    if (number(head, AT_MAJOR, 2) != 4 || number(head, AT_MINOR, 2) != 0) {
        return not_squashfs(error, path, "it is not of SquashFS version 4.0");
    }
    uint64_t block_log = number(head, AT_BLOCK_LOG, 2);
    *superblock = (struct sp_superblock){
        .inodes = (uint32_t)number(head, AT_INODES, 4),
        .block_size = (uint32_t)number(head, AT_BLOCK_SIZE, 4),
        .compressor = (uint16_t)number(head, AT_COMPRESSOR, 2),
        .bytes_used = number(head, AT_BYTES_USED, 8),
    };
    if (block_log < SMALLEST_BLOCK_LOG || block_log > LARGEST_BLOCK_LOG ||
        superblock->block_size != 1U << block_log || superblock->inodes == 0 ||
        superblock->bytes_used < SP_SUPERBLOCK_BYTES || superblock->bytes_used > INT64_MAX) {
        return not_squashfs(error, path, "its superblock is damaged");
    }
    if (superblock->compressor == 0 || superblock->compressor > LAST_COMPRESSOR) {
        return not_squashfs(error, path, "its compressor is not known");
    }
    if (file_size < superblock->bytes_used) {
        return truncated(error, path, file_size, superblock->bytes_used);
    }
    if (!tables_are_sound(head, superblock->bytes_used)) {
        return not_squashfs(error, path, "its tables are damaged");
    }
    return 0;
}

int sp_superblock_read(int descriptor, uint64_t file_size, const char *path,
                       struct sp_superblock *superblock, struct sp_error *error)
{
    unsigned char head[SP_SUPERBLOCK_BYTES];
    size_t length = 0;
    while (length < sizeof head) {
        ssize_t got = pread(descriptor, head + length, sizeof head - length, (off_t)length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return sp_fail(error, SP_IMAGE_UNREADABLE, "cannot read image `%s`: %s", path,
                           strerror(errno));
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    return sp_superblock_parse(head, length, file_size, path, superblock, error);
}
