/* libFuzzer: no `meta/env.json`, and no record in the environment, makes the plug-in's reading of
 * them leave its text or its memory. The input is the record, a NUL, and the metadata. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_BYTES = 8 << 20 };

static void apply_all(const struct meta *meta, struct environment *environment)
{
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    char name[64];
    while (meta->has_views && sp_json_next(meta->views, &key, &at)) {
        if (sp_json_text(key, name, sizeof name)) {
            (void)meta_forces_transport(meta, name);
        }
        if (meta_apply(at, environment) != ENVIRONMENT_DONE) {
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\0', size);
    size_t length = end != NULL ? (size_t)(end - data) : 0;
    size_t offset = end != NULL ? length + 1 : 0;
    static const char undo[] = "STACKPROOF_UNDO=";
    char home[] = "HOME=/house/u";
    char list[] = "LIST=/a:/b::/a";
    struct sp_arena arena = {.left = MEMORY_BYTES};
    struct environment environment;
    struct meta meta;
    char *record = malloc(sizeof undo + length);
    char *text = malloc(size - offset + 1); /* of just this size, so that reading on is seen */
    if (record == NULL || text == NULL) {
        abort();
    }
    memcpy(record, undo, sizeof undo);
    memcpy(record + sizeof undo - 1, data, length);
    record[sizeof undo - 1 + length] = '\0';
    memcpy(text, data + offset, size - offset);
    char *variables[] = {home, list, record, NULL};
    if (environment_read(variables, &arena, &environment) == ENVIRONMENT_DONE &&
        meta_read(text, size - offset, &arena, &meta) == NULL) {
        apply_all(&meta, &environment);
        (void)environment_record(&environment);
    }
    sp_arena_free(&arena);
    free(record);
    free(text);
    return 0;
}
