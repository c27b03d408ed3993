/* Memory for many small things that live and end together, of which there may be so much. */
#ifndef STACKPROOF_ARENA_H
#define STACKPROOF_ARENA_H

#include <stddef.h>

/* `left` is how many bytes may still be taken; to begin with {.left = LIMIT}. */
struct sp_arena {
    size_t left;
    struct sp_arena_block *blocks;
};

/* Returns `size` bytes of zeros, aligned for every type; NULL where there is no more. */
void *sp_arena_take(struct sp_arena *arena, size_t size);

/* Returns a copy of `length` bytes with an end behind it, or NULL. */
char *sp_arena_copy(struct sp_arena *arena, const char *text, size_t length);

/* Returns two texts with a colon between, or the one that is not NULL; NULL without room. */
const char *sp_arena_join(struct sp_arena *arena, const char *left, const char *right);

/* Frees everything that was taken. */
void sp_arena_free(struct sp_arena *arena);

#endif
