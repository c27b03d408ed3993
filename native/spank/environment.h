/* An environment, and how views change it: src/stackproof/core/environment.py and session.py in C.
 *
 * What is there now, what was there before other views changed it, and what is to be there are the
 * columns of one table. tests/native/test_views.py compares it with the Python. */
#ifndef STACKPROOF_SPANK_ENVIRONMENT_H
#define STACKPROOF_SPANK_ENVIRONMENT_H

#include <stddef.h>

#include "../core/arena.h"

enum { ENVIRONMENT_ROWS = 8192 };

/* A variable; NULL where it is unset. */
struct environment_row {
    const char *name;
    const char *now;
    const char *before; /* without what STACKPROOF_UNDO takes back */
    const char *after;
};

/* An entry of a list variable. */
struct environment_entry {
    const char *text;
    size_t length;
};

struct environment {
    struct sp_arena *arena;
    struct environment_row *rows;
    size_t count;
    struct environment_entry *entries; /* where lists are taken apart */
};

/* What became of it. */
enum environment_end {
    ENVIRONMENT_DONE,
    ENVIRONMENT_UNSURE, /* something that is not understood here */
    ENVIRONMENT_FULL,   /* more than there is room for */
};

/* Reads variables, a list with NULL at its end. Without the changes that are recorded in them,
 * `before` and `after` are what is there now. The texts must live as long as the table. */
enum environment_end environment_read(char *const variables[], struct sp_arena *arena,
                                      struct environment *environment);

/* Gives a variable another value, NULL for none. */
enum environment_end environment_set(struct environment *environment, const char *name,
                                     const char *value);

/* Puts entries in front of a variable's and behind them (a text of entries with colons between,
 * NULL for none) and leaves each entry once, and no empty one. */
enum environment_end environment_extend(struct environment *environment, const char *name,
                                        const char *front, const char *behind);

/* Returns a text with each `${@NAME@}` replaced by what the variable was before, or NULL where
 * there is no room. */
const char *environment_resolve(const struct environment *environment, const char *text);

/* Records the change from `before` to `after` in the variable that takes it back. */
enum environment_end environment_record(struct environment *environment);

#endif
