/* libFuzzer: the first eight bytes are the size of a file, the others what it begins with. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "superblock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_superblock superblock;
    struct sp_error error;
    uint64_t file_size = 0;
    if (size < sizeof file_size) {
        return 0;
    }
    memcpy(&file_size, data, sizeof file_size);
    size_t length = size - sizeof file_size;
    /* A copy of its own: reading one byte behind it is then an error. */
    unsigned char *head = malloc(length == 0 ? 1 : length);
    if (head == NULL) {
        abort();
    }
    memcpy(head, data + sizeof file_size, length);
    if (sp_superblock_parse(head, length, file_size, "a", &superblock, &error) == 0 &&
        (length < SP_SUPERBLOCK_BYTES || superblock.bytes_used > file_size ||
         superblock.inodes == 0 || superblock.block_size < 4096 ||
         superblock.block_size > 1048576)) {
        abort();
    }
    free(head);
    return 0;
}
