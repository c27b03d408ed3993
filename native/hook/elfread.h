/* What the dynamic section of an ELF file says: names, version nodes, single symbols.
 *
 * It is read from program headers, as the loader reads it (System V gABI, chapter 5; symbol
 * versions: Linux Standard Base Core). Every offset is checked against the file, and every walk has
 * an end, so that no file makes it crash or run for long. 64-bit little-endian files only. */
#ifndef STACKPROOF_ELFREAD_H
#define STACKPROOF_ELFREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum {
    SP_ELF_SEGMENTS = 64,
    SP_ELF_NEEDED = 256,
    SP_ELF_NAME = 256,
    SP_ELF_WINDOW = 4096,
    SP_ELF_WINDOWS = 4,
    SP_ELF_STEPS = 1 << 16, /* pieces of a file that are looked at, whatever points at itself */
};

struct sp_elf_segment {
    uint64_t address;
    uint64_t offset;
    uint64_t size;
};

/* An open file, or bytes in memory (`memory` not NULL), and what was found in it. */
struct sp_elf {
    int descriptor;
    const unsigned char *memory;
    uint64_t size;
    unsigned machine;
    unsigned steps; /* that are left */
    size_t segment_count;
    struct sp_elf_segment segments[SP_ELF_SEGMENTS];
    uint64_t strings;
    uint64_t string_bytes;
    uint64_t symbols;
    uint64_t gnu_hash;
    uint64_t hash;
    uint64_t definitions;
    uint64_t definition_count;
    uint64_t needs;
    uint64_t need_count;
    uint64_t soname;
    size_t needed_count;
    uint64_t needed[SP_ELF_NEEDED];
    size_t next_window;
    struct sp_elf_window {
        uint64_t start;
        size_t bytes;
        unsigned char content[SP_ELF_WINDOW];
    } windows[SP_ELF_WINDOWS];
};

/* Reads headers and the dynamic section; `descriptor`, `memory` and `size` are set by the caller.
 * Fails with invalid-value for what is no such file, or a damaged one. `path` is for messages. */
int sp_elf_read(struct sp_elf *elf, const char *path, struct sp_error *error);

/* Writes the SONAME; false without one. */
bool sp_elf_soname(struct sp_elf *elf, char name[SP_ELF_NAME]);

/* Returns whether a name in DT_NEEDED begins with `start`. */
bool sp_elf_needs(struct sp_elf *elf, const char *start);

/* Returns whether the file defines a version node. */
bool sp_elf_defines(struct sp_elf *elf, const char *node);

/* Calls `take` with each version node that the file defines, but the one that names the file, until
 * it returns false; returns whether it never did. */
bool sp_elf_each_definition(struct sp_elf *elf, bool (*take)(void *context, const char *node),
                            void *context);

/* The same for the nodes that it needs of a library, by the name in its DT_NEEDED. */
bool sp_elf_each_need(struct sp_elf *elf, const char *library,
                      bool (*take)(void *context, const char *node), void *context);

/* Returns whether it exports a symbol, found by its hash table. */
bool sp_elf_exports(struct sp_elf *elf, const char *symbol);

#endif
