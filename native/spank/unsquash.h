/* The metadata of an image file, by the program that reads SquashFS. */
#ifndef STACKPROOF_SPANK_UNSQUASH_H
#define STACKPROOF_SPANK_UNSQUASH_H

#include <stddef.h>

#include "../core/arena.h"
#include "../core/error.h"

/* Gets the bytes of `meta/env.json` of an image. Fails with tool-missing and image-no-meta. */
int unsquash_meta(struct sp_arena *arena, const char *path, const char **text, size_t *length,
                  struct sp_error *error);

#endif
