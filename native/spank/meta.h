/* What an image says of itself, its `meta/env.json`: src/stackproof/image/described.py in C.
 *
 * The text is what a stranger may have written. It is read as the user, at submission, bounded in
 * size, depth and count. What is rare is not understood here though the Python may: names that come
 * twice, other encodings, other types. tests/native/test_views.py compares the two. */
#ifndef STACKPROOF_SPANK_META_H
#define STACKPROOF_SPANK_META_H

#include <stdbool.h>
#include <stddef.h>

#include "../core/arena.h"
#include "../core/json.h"
#include "environment.h"

enum { META_BYTES = 1 << 20 };

struct meta {
    const char *name;
    const char *mount;
    const char *default_view; /* NULL: none */
    const char *family;       /* of its MPI; NULL: none */
    struct sp_json views;
    struct sp_json transports; /* names of views that force a path */
    bool has_views;
};

/* Reads a text, which must live as long as `meta`. Returns NULL, or what is not understood. */
const char *meta_read(const char *text, size_t length, struct sp_arena *arena, struct meta *meta);

/* Finds a view by its name. */
bool meta_view(const struct meta *meta, const char *name, struct sp_json *view);

/* Returns whether a view forces the path of messages that its name says. */
bool meta_forces_transport(const struct meta *meta, const char *view);

/* Makes the changes of a view that meta_view has found. */
enum environment_end meta_apply(struct sp_json view, struct environment *environment);

#endif
