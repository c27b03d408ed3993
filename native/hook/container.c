#include "container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int bad(struct sp_error *error, const char *what, const char *why)
{
    (void)sp_fail(error, SP_INVALID_VALUE, "%s %s", what, why);
    return sp_hint(error, "this is a hook: runtimes of containers start it");
}

int sp_bundle_state(struct sp_bundle *bundle, char *text, size_t length, char folder[PATH_MAX],
                    struct sp_error *error)
{
    struct sp_json state = {.start = NULL, .end = NULL};
    struct sp_json value = {.start = NULL, .end = NULL};
    bundle->state = text;
    if (!sp_json_read(text, length, &state)) {
        return bad(error, "the state of the container", "is no JSON");
    }
    bundle->process = -1;
    if (sp_json_member(state, "pid", &value)) {
        bundle->process = sp_json_number(value);
    }
    if (!sp_json_member(state, "id", &value) ||
        !sp_json_text(value, bundle->id, sizeof bundle->id)) {
        bundle->id[0] = '\0';
    }
    if (!sp_json_member(state, "bundle", &value) || !sp_json_text(value, folder, PATH_MAX) ||
        folder[0] != '/') {
        return bad(error, "the state of the container", "has no absolute path of a bundle");
    }
    return 0;
}

int sp_bundle_config(struct sp_bundle *bundle, char *text, size_t length, const char *folder,
                     struct sp_error *error)
{
    struct sp_json config = {.start = NULL, .end = NULL};
    struct sp_json value = {.start = NULL, .end = NULL};
    char path[PATH_MAX];
    bundle->config = text;
    if (!sp_json_read(text, length, &config)) {
        return bad(error, "config.json of the container", "is no JSON");
    }
    if (!sp_json_member(config, "root", &value) || !sp_json_member(value, "path", &value) ||
        !sp_json_text(value, path, sizeof path) || path[0] == '\0') {
        return bad(error, "config.json of the container", "has no root folder");
    }
    int used = path[0] == '/' ? snprintf(bundle->root, sizeof bundle->root, "%s", path)
                              : snprintf(bundle->root, sizeof bundle->root, "%s/%s", folder, path);
    if (used < 0 || (size_t)used >= sizeof bundle->root) {
        return bad(error, "config.json of the container", "has a root folder with a long name");
    }
    if (sp_json_member(config, "process", &value) && sp_json_member(value, "env", &value)) {
        bundle->environment = value;
    }
    return 0;
}

/* Reads what a descriptor gives until its end; NULL where it is more than `most`, or an error. */
static char *read_all(int descriptor, size_t most, size_t *length)
{
    size_t room = (size_t)64 * 1024;
    char *text = malloc(room);
    *length = 0;
    while (text != NULL) {
        if (*length == room) {
            char *more = room < most ? realloc(text, room * 2) : NULL;
            if (more == NULL) {
                break;
            }
            text = more;
            room *= 2;
        }
        ssize_t got = read(descriptor, text + *length, room - *length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got == 0) {
            return text;
        }
        if (got < 0) {
            break;
        }
        *length += (size_t)got;
    }
    free(text);
    return NULL;
}

int sp_bundle_load(struct sp_bundle *bundle, int descriptor, struct sp_error *error)
{
    char folder[PATH_MAX];
    char path[PATH_MAX + sizeof "/config.json"];
    size_t length = 0;
    char *text = read_all(descriptor, SP_STATE_BYTES, &length);
    if (text == NULL) {
        return bad(error, "the state of the container", "cannot be read from standard input");
    }
    if (sp_bundle_state(bundle, text, length, folder, error) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    text = file < 0 ? NULL : read_all(file, SP_CONFIG_BYTES, &length);
    if (file >= 0) {
        (void)close(file);
    }
    if (text == NULL) {
        return bad(error, "config.json of the container", "cannot be read");
    }
    return sp_bundle_config(bundle, text, length, folder, error);
}

void sp_bundle_free(struct sp_bundle *bundle)
{
    free(bundle->state);
    free(bundle->config);
    *bundle = (struct sp_bundle){.process = -1};
}
