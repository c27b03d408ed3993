#include "arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

struct sp_arena_block {
    struct sp_arena_block *next;
    alignas(max_align_t) unsigned char bytes[];
};

void *sp_arena_take(struct sp_arena *arena, size_t size)
{
    struct sp_arena_block *block = NULL;
    if (size > arena->left || arena->left - size < sizeof *block) {
        return NULL;
    }
    block = calloc(1, sizeof *block + size);
    if (block == NULL) {
        return NULL;
    }
    arena->left -= size + sizeof *block;
    block->next = arena->blocks;
    arena->blocks = block;
    return block->bytes;
}

char *sp_arena_copy(struct sp_arena *arena, const char *text, size_t length)
{
    char *copy = sp_arena_take(arena, length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

const char *sp_arena_join(struct sp_arena *arena, const char *left, const char *right)
{
    if (left == NULL || right == NULL) {
        return left == NULL ? right : left;
    }
    size_t first = strlen(left);
    size_t second = strlen(right);
    char *text = sp_arena_take(arena, first + second + 2);
    if (text != NULL) {
        memcpy(text, left, first);
        text[first] = ':';
        memcpy(text + first + 1, right, second);
    }
    return text;
}

void sp_arena_free(struct sp_arena *arena)
{
    while (arena->blocks != NULL) {
        struct sp_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
}
