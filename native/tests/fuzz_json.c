/* libFuzzer: no state and no configuration makes the hook's reading of JSON leave its text. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEEPEST = SP_JSON_DEPTH + 1 };

/* Goes through a whole document, and checks that every value lies inside of it. */
static void visit(struct sp_json whole)
{
    struct sp_json open[DEEPEST];
    struct sp_json at[DEEPEST];
    struct sp_json key = {.start = NULL, .end = NULL};
    char text[64];
    size_t depth = 1;
    open[0] = whole;
    at[0] = (struct sp_json){.start = NULL, .end = NULL};
    while (depth > 0) {
        struct sp_json *value = &at[depth - 1];
        if (!sp_json_next(open[depth - 1], &key, value)) {
            depth--;
            continue;
        }
        if (value->start < whole.start || value->end > whole.end || value->start >= value->end) {
            abort();
        }
        (void)sp_json_text(*value, text, sizeof text);
        (void)sp_json_number(*value);
        if (*value->start == '{' || *value->start == '[') {
            if (depth == DEEPEST) {
                abort();
            }
            open[depth] = *value;
            at[depth++] = (struct sp_json){.start = NULL, .end = NULL};
        }
    }
}

static char *copy(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_bundle bundle = {.process = -1};
    struct sp_json whole = {.start = NULL, .end = NULL};
    struct sp_error error;
    char folder[PATH_MAX];
    char value[256];
    if (sp_json_read((const char *)data, size, &whole)) {
        visit(whole);
    }
    (void)sp_bundle_state(&bundle, copy(data, size), size, folder, &error);
    if (sp_bundle_config(&bundle, copy(data, size), size, "/bundle", &error) == 0) {
        (void)sp_environment_value(bundle.environment, "LD_LIBRARY_PATH", value, sizeof value);
    }
    sp_bundle_free(&bundle);
    return 0;
}
