/* Records of images that were verified by an administrator: who signed them, as which label.
 *
 *     stackproof-trust 1
 *     image SHA256
 *     path PATH
 *     file INODE SIZE MTIME CTIME        nanoseconds
 *     signed UNTIL SIGNER LABEL          seconds since 1970, 0: for ever
 *
 * `stackproof image verify --record` writes them; src/stackproof/share/trust/records.py has the
 * same format. `image` and `path` are for people. One is found by what the kernel says of the open
 * file, in a folder that only root may write to:
 *
 *     verity-MEASURE      the measure of fs-verity, to which the kernel holds every read; no `file`
 *     file-INODE-SIZE     a file of root's that nobody else may write to, as it is in `file` */
#ifndef STACKPROOF_RECORD_H
#define STACKPROOF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "image.h"

enum { SP_RECORD_BYTES = 16 * 1024, SP_RECORD_SIGNED = 32 };

struct sp_signed {
    int64_t until;
    const char *signer;
    const char *label;
};

struct sp_record {
    bool has_file;
    uint64_t inode;
    uint64_t size;
    int64_t modified;
    int64_t changed;
    size_t count;
    struct sp_signed rows[SP_RECORD_SIGNED];
};

/* Parses a text, which it cuts into words and which must live as long as the record. Fails with
 * invalid-value; `path` is for messages. */
int sp_record_parse(char *text, size_t length, const char *path, struct sp_record *record,
                    struct sp_error *error);

/* Reads the record of an open image in `folder` (O_PATH; -1: there are none); `path` names it for
 * messages. `text` is to be freed. `record->count` is 0 where there is none that fits, and `stale`
 * is true where the file was changed since. Fails with not-permitted, invalid-value. */
int sp_record_find(int folder, const char *path, const struct sp_image *image, char **text,
                   struct sp_record *record, bool *stale, struct sp_error *error);

#endif
