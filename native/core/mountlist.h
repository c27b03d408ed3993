/* The mount list: text such as `a.squashfs,tools.squashfs:/user-tools` to images and mount points.
 *
 * The grammar (EBNF) is in the docstring of src/stackproof/core/mountlist.py; the examples in
 * tests/documents/mountlists.yaml are the test of both parsers. Two things are only here: a list
 * has at most SP_MAX_LIST_BYTES bytes and SP_MAX_IMAGES entries.
 *
 * An entry need not name its mount point. Where an image wants to be is written inside of it, and
 * nothing native reads that: callers (`stackproof`, the option of srun) resolve it beforehand. */
#ifndef STACKPROOF_MOUNTLIST_H
#define STACKPROOF_MOUNTLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

enum { SP_MAX_IMAGES = 64, SP_MAX_LIST_BYTES = 128 * 1024 };

/* One entry; `mount_point` is normal (no doubled or trailing slash), or NULL where none is named.
 * `label` is what the image was asked for before its file was found, NULL for none. */
struct sp_mount_entry {
    const char *image;
    const char *mount_point;
    const char *label;
};

/* A list in the order in which it was written. The texts live in `memory`. */
struct sp_mount_list {
    size_t count;
    struct sp_mount_entry entries[SP_MAX_IMAGES];
    char *memory;
};

/* Hears each problem of a list, in the order of the grammar's other parser. */
typedef void sp_problem_listener(void *context, const struct sp_error *problem);

/* Parses `length` bytes. `error` gets the first problem (usage, bad-mount-point,
 * mount-point-clash); `listener`, if not NULL, hears all of them. The list must be freed when this
 * returned 0, and is empty when it did not. */
int sp_mount_list_parse(const char *text, size_t length, struct sp_mount_list *list,
                        sp_problem_listener *listener, void *context, struct sp_error *error);

/* Gives each entry of a list its label. `text` has one for each, perhaps empty, with commas between
 * them; it is cut at these and must live as long as the list. Fails with usage. */
int sp_mount_list_label(struct sp_mount_list *list, char *text, struct sp_error *error);

/* Frees the texts of a list; of an empty one nothing. */
void sp_mount_list_free(struct sp_mount_list *list);

/* Returns why a path cannot be a mount point, in words that go behind `cannot be a mount point: `,
 * or NULL if it can. Whether the folder exists is not asked here. The path is not terminated. */
const char *sp_bad_mount_point(const char *path, size_t length);

/* Returns whether a word that is no file may be the label of an image, which the program knows. */
bool sp_mount_may_be_label(const char *word);

#endif
