/* The compact manifest of an artefact: `meta/abi.manifest`, written by `stackproof inject
 * artefact`.
 *
 * src/stackproof/inject/hook_manifest.py has its grammar. */
#ifndef STACKPROOF_MANIFEST_H
#define STACKPROOF_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

enum { SP_MANIFEST_BYTES = 256 * 1024, SP_MANIFEST_ROWS = 64, SP_MANIFEST_WORDS = 4096 };

#define SP_MANIFEST_NAME "meta/abi.manifest"

/* One line: its words behind the key. */
struct sp_row {
    const char *const *words;
    size_t count;
};

/* The lines with one key. */
struct sp_rows {
    struct sp_row rows[SP_MANIFEST_ROWS];
    size_t count;
};

struct sp_manifest {
    const char *name;
    const char *place;
    const char *isa; /* NULL where it says nothing */
    const char *shs;
    unsigned machine;
    struct sp_rows replaces;    /* level, name, file */
    struct sp_rows abis;        /* name, ABI */
    struct sp_rows lacks;       /* name, symbols */
    struct sp_rows provides;    /* name, nodes */
    struct sp_rows parts;       /* name */
    struct sp_rows needs;       /* name, nodes */
    struct sp_rows environment; /* level, name, value */
    const char *words[SP_MANIFEST_WORDS];
    size_t word_count;
    char *memory;
};

/* Parses a text; `path` is for messages. Free it when this returned 0. Fails with invalid-value for
 * everything that the writer would not write, a wrong checksum first. */
int sp_manifest_parse(const char *text, size_t length, const char *path,
                      struct sp_manifest *manifest, struct sp_error *error);

void sp_manifest_free(struct sp_manifest *manifest);

/* Returns the row whose first word is `name`, or NULL. */
const struct sp_row *sp_rows_named(const struct sp_rows *rows, const char *name);

/* Returns whether a word stands behind the first one of a row. */
bool sp_row_has(const struct sp_row *row, const char *word);

#endif
