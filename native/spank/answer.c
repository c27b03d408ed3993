#include "answer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/arena.h"
#include "../core/image.h"
#include "../core/mountlist.h"
#include "../core/path.h"
#include "../core/text.h"
#include "environment.h"
#include "meta.h"
#include "options.h"
#include "unsquash.h"

enum { MEMORY_BYTES = 64 << 20, MOST_VIEWS = 64 };

/* An image that is asked about. */
struct subject {
    const char *path; /* absolute */
    const char *mount_point;
    struct meta meta; /* `name` is NULL where it was not read */
};

struct answer {
    struct sp_arena arena;
    struct environment environment;
    struct subject subjects[SP_MAX_IMAGES];
    size_t count;
    const char *transport; /* that the chosen views force */
    const char *notes[2 * SP_MAX_IMAGES];
    size_t note_count;
    struct sp_error *error;
};

static enum answer_end unsure(struct answer *answer, enum sp_reason reason, const char *image,
                              const char *why)
{
    (void)sp_fail(answer->error, reason, "the `meta/env.json` of image `%s` cannot be used: %s",
                  image, why);
    return ANSWER_ASK;
}

static enum answer_end full(struct answer *answer)
{
    (void)sp_fail(answer->error, SP_IMAGE_NO_META, "the views set more than there is room for");
    return ANSWER_ASK;
}

static enum answer_end of_environment(struct answer *answer, enum environment_end end)
{
    if (end == ENVIRONMENT_UNSURE) {
        (void)sp_fail(answer->error, SP_INVALID_VALUE, "`STACKPROOF_UNDO` cannot be read");
        return ANSWER_ASK;
    }
    return end == ENVIRONMENT_DONE ? ANSWER_WHOLE : full(answer);
}

/* Returns a path from the root folder without `.`, `..` and doubled slashes, as a text: links are
 * not looked at, as in Python's os.path.abspath. NULL where it cannot be in a mount list. */
static const char *absolute(struct answer *answer, const char *path)
{
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && getcwd(folder, sizeof folder) == NULL) {
        return NULL;
    }
    size_t length = strlen(folder) + strlen(path) + 3;
    char *whole = sp_arena_take(&answer->arena, length);
    char *normal = sp_arena_take(&answer->arena, length);
    if (whole == NULL || normal == NULL || (path[0] == '/' && path[1] == '/' && path[2] != '/')) {
        return NULL; /* two slashes may mean something else (POSIX) */
    }
    (void)snprintf(whole, length, "%s/%s", folder, path);
    size_t used = 0;
    char *rest = whole;
    while (rest != NULL) {
        const char *part = strsep(&rest, "/");
        if (strcmp(part, "..") == 0) {
            while (used > 0 && normal[--used] != '/') {
            }
        } else if (*part != '\0' && strcmp(part, ".") != 0) {
            normal[used++] = '/';
            memcpy(normal + used, part, strlen(part));
            used += strlen(part);
        }
        normal[used] = '\0';
    }
    return strpbrk(normal, ",:") == NULL && used > 0 ? normal : NULL;
}

static void note(struct answer *answer, const char *format, const char *first, const char *second,
                 const char *third)
{
    char text[SP_MESSAGE_BYTES];
    (void)snprintf(text, sizeof text, "note: `%s` %s", first, format);
    size_t length = strlen(text);
    if (second != NULL) {
        (void)snprintf(text + length, sizeof text - length, " %s; its views name that path, not %s",
                       second, third);
    }
    sp_text_make_printable(text);
    answer->notes[answer->note_count++] = sp_arena_copy(&answer->arena, text, strlen(text));
}

/* Looks at one image: that it is one, and what it says of itself unless nobody wants to know. */
static enum answer_end look_at(struct answer *answer, const struct sp_mount_entry *entry,
                               bool no_view)
{
    struct subject *subject = &answer->subjects[answer->count++];
    struct sp_image image;
    const char *text = NULL;
    size_t length = 0;
    *subject = (struct subject){.path = absolute(answer, entry->image),
                                .mount_point = entry->mount_point};
    if (subject->path == NULL) {
        (void)sp_fail(answer->error, SP_USAGE, "the path `%s` has a comma or a colon",
                      entry->image);
        return ANSWER_ASK;
    }
    if (sp_image_open(entry->image, NULL, &image, answer->error) != 0) {
        bool missing = answer->error->reason == SP_IMAGE_MISSING;
        if (missing) {
            bool own = strncmp(subject->path, "/tmp/", 5) == 0;
            (void)sp_fail(answer->error, SP_IMAGE_MISSING, "there is no image `%s`", entry->image);
            (void)sp_hint(answer->error,
                          own ? "each machine has a /tmp of its own, and so has a cluster of "
                                "namespaces: put the image on what all share"
                              : "make one with `stackproof build`");
        }
        if (missing && sp_mount_may_be_label(entry->image)) {
            return ANSWER_ASK;
        }
        if (!missing || !no_view || entry->mount_point == NULL) {
            return missing ? ANSWER_REFUSED : ANSWER_ASK;
        }
        note(answer, "is not on this machine", entry->image, NULL, NULL);
        return ANSWER_WHOLE;
    }
    sp_image_close(&image);
    if (no_view && entry->mount_point != NULL) {
        return ANSWER_WHOLE;
    }
    if (unsquash_meta(&answer->arena, subject->path, &text, &length, answer->error) != 0) {
        return ANSWER_ASK;
    }
    const char *fault = meta_read(text, length, &answer->arena, &subject->meta);
    if (fault != NULL) {
        return unsure(answer, SP_IMAGE_NO_META, subject->path, fault);
    }
    return ANSWER_WHOLE;
}

/* Gives each image its place. */
static enum answer_end place(struct answer *answer, bool no_view)
{
    for (size_t number = 0; number < answer->count; number++) {
        struct subject *subject = &answer->subjects[number];
        const struct meta *meta = &subject->meta;
        const char *wanted = subject->mount_point != NULL ? subject->mount_point : meta->mount;
        size_t length = strlen(wanted);
        const char *fault = sp_bad_mount_point(wanted, length);
        char *normal = sp_arena_take(&answer->arena, length + 1);
        if (fault != NULL || normal == NULL) {
            (void)sp_fail(answer->error, SP_BAD_MOUNT_POINT, "`%s` cannot be a mount point: %s",
                          wanted, fault != NULL ? fault : "no memory");
            return ANSWER_ASK;
        }
        (void)sp_path_write_normal(wanted, length, normal);
        if (!no_view && meta->has_views && strcmp(wanted, meta->mount) != 0) {
            note(answer, "was built for", meta->name, meta->mount, wanted);
        }
        subject->mount_point = normal;
        for (size_t other = 0; other < number; other++) {
            if (strcmp(answer->subjects[other].mount_point, normal) == 0) {
                (void)sp_fail(answer->error, SP_MOUNT_POINT_CLASH, "two images at `%s`", normal);
                return ANSWER_ASK;
            }
        }
    }
    return ANSWER_WHOLE;
}

/* Applies one view of an image. */
static enum answer_end use(struct answer *answer, const struct subject *subject, const char *name)
{
    struct sp_json view;
    if (!meta_view(&subject->meta, name, &view)) {
        (void)sp_fail(answer->error, SP_UNKNOWN_VIEW, "no view `%s` in `%s`", name, subject->path);
        return ANSWER_ASK;
    }
    if (meta_forces_transport(&subject->meta, name)) {
        if (answer->transport != NULL && strcmp(answer->transport, name) != 0) {
            (void)sp_fail(answer->error, SP_USAGE, "the views force the transports `%s` and `%s`",
                          answer->transport, name);
            return ANSWER_ASK;
        }
        answer->transport = name;
    }
    enum environment_end end = meta_apply(view, &answer->environment);
    return end == ENVIRONMENT_UNSURE ? unsure(answer, SP_IMAGE_NO_META, subject->path, "a variable")
                                     : of_environment(answer, end);
}

/* Names the views that there are, as far as there is room. */
static void hint_views(struct answer *answer)
{
    char text[SP_HINT_BYTES] = "";
    size_t used = 0;
    for (size_t number = 0; number < answer->count; number++) {
        const struct meta *meta = &answer->subjects[number].meta;
        struct sp_json key = {.start = NULL, .end = NULL};
        struct sp_json at = {.start = NULL, .end = NULL};
        while (meta->has_views && sp_json_next(meta->views, &key, &at) && used < sizeof text) {
            int length = snprintf(text + used, sizeof text - used, "%s%s:%.*s",
                                  used > 0 ? ", " : "", meta->name,
                                  (int)(key.end - key.start - 2), key.start + 1);
            used += length > 0 ? (size_t)length : 0;
        }
    }
    (void)sp_hint(answer->error, used > 0 ? "views: %s" : "there are no views; leave it out%s",
                  text);
}

/* Finds the one image that has a view [IMAGE-NAME:]VIEW and applies it. */
static enum answer_end use_named(struct answer *answer, char *text)
{
    const struct subject *found = NULL;
    struct sp_json ignored;
    size_t count = 0;
    char *colon = strrchr(text, ':');
    const char *name = colon != NULL ? colon + 1 : text;
    if (colon != NULL) {
        *colon = '\0';
    }
    for (size_t number = 0; number < answer->count; number++) {
        const struct subject *subject = &answer->subjects[number];
        bool of_owner = colon == NULL || strcmp(subject->meta.name, text) == 0;
        if (of_owner && meta_view(&subject->meta, name, &ignored)) {
            found = subject;
            count++;
        }
    }
    if (count == 1) {
        return use(answer, found, name);
    }
    if (count == 0) {
        (void)sp_fail(answer->error, SP_UNKNOWN_VIEW, "no view `%s` in the images", name);
    } else {
        (void)sp_fail(answer->error, SP_USAGE, "view `%s` is in %zu images", name, count);
    }
    hint_views(answer);
    return ANSWER_ASK;
}

static enum answer_end use_views(struct answer *answer, const char *views)
{
    enum answer_end end = ANSWER_WHOLE;
    if (views == NULL) {
        for (size_t number = 0; end == ANSWER_WHOLE && number < answer->count; number++) {
            const struct subject *subject = &answer->subjects[number];
            if (subject->meta.default_view != NULL) {
                end = use(answer, subject, subject->meta.default_view);
            }
        }
        return end;
    }
    char *rest = sp_arena_copy(&answer->arena, views, strlen(views));
    if (rest == NULL) {
        return full(answer);
    }
    for (size_t number = 0; end == ANSWER_WHOLE && rest != NULL; number++) {
        char *name = strsep(&rest, ",");
        end = number < MOST_VIEWS ? use_named(answer, name) : full(answer);
    }
    return end;
}

/* Returns the length of `PREFIX NAME[=VALUE]` with its end; writes it where there is a target. */
static size_t write_record(const char *prefix, const char *name, const char *value, char *target)
{
    size_t room = strlen(prefix) + strlen(name) + (value != NULL ? strlen(value) + 1 : 0) + 1;
    if (target != NULL) {
        (void)snprintf(target, room, "%s%s%s%s", prefix, name, value != NULL ? "=" : "",
                       value != NULL ? value : "");
    }
    return room;
}

/* Writes the records of mount/cli/activate.py; returns their length. */
static size_t write_records(const struct answer *answer, const char *mounts, char *target)
{
    size_t used = write_record("stackproof-activate 1", "", NULL, target);
    used += write_record("mounts ", mounts, NULL, target == NULL ? NULL : target + used);
    for (size_t number = 0; number < answer->environment.count; number++) {
        const struct environment_row *row = &answer->environment.rows[number];
        char *place = target == NULL ? NULL : target + used;
        if (row->after == NULL && row->now != NULL) {
            used += write_record("unset ", row->name, NULL, place);
        } else if (row->after != NULL && (row->now == NULL || strcmp(row->now, row->after) != 0)) {
            used += write_record("set ", row->name, row->after, place);
        }
    }
    return used + write_record("end", "", NULL, target == NULL ? NULL : target + used);
}

static const char *render_mounts(struct answer *answer)
{
    size_t length = 1;
    for (size_t number = 0; number < answer->count; number++) {
        const struct subject *subject = &answer->subjects[number];
        length += strlen(subject->path) + strlen(subject->mount_point) + 2;
    }
    char *text = sp_arena_take(&answer->arena, length);
    size_t used = 0;
    for (size_t number = 0; text != NULL && number < answer->count; number++) {
        const struct subject *subject = &answer->subjects[number];
        used += (size_t)snprintf(text + used, length - used, "%s%s:%s", number > 0 ? "," : "",
                                 subject->path, subject->mount_point);
    }
    return text;
}

static enum answer_end finish(struct answer *answer, activation_listener *listener,
                              struct activation *activation)
{
    const char *mounts = render_mounts(answer);
    if (mounts == NULL) {
        return full(answer);
    }
    memset(activation, 0, sizeof *activation);
    activation->length = write_records(answer, mounts, NULL);
    activation->records = malloc(activation->length);
    if (activation->records == NULL) {
        return full(answer);
    }
    (void)write_records(answer, mounts, activation->records);
    if (activation_parse(activation) != 0) {
        activation_free(activation);
        return full(answer);
    }
    for (size_t number = 0; number < answer->note_count; number++) {
        if (answer->notes[number] != NULL) {
            listener(answer->notes[number]);
        }
    }
    return ANSWER_WHOLE;
}

static enum answer_end look_at_all(struct answer *answer, const struct activation_request *request)
{
    struct sp_mount_list list;
    enum answer_end end = ANSWER_WHOLE;
    if (sp_mount_list_parse(request->images, strlen(request->images), &list, NULL, NULL,
                            answer->error) != 0) {
        return ANSWER_ASK;
    }
    for (size_t number = 0; end == ANSWER_WHOLE && number < list.count; number++) {
        end = look_at(answer, &list.entries[number], request->no_view);
    }
    end = end == ANSWER_WHOLE ? place(answer, request->no_view) : end;
    sp_mount_list_free(&list);
    if (end == ANSWER_WHOLE && !request->no_view) {
        end = use_views(answer, request->view);
        end = end == ANSWER_WHOLE
                  ? of_environment(answer, environment_record(&answer->environment))
                  : end;
    }
    return end;
}

enum answer_end answer_make(const struct activation_request *request, char *const variables[],
                            activation_listener *listener, struct activation *activation,
                            struct sp_error *error)
{
    struct answer *answer = calloc(1, sizeof *answer);
    error->reason = SP_USAGE;
    error->message[0] = error->hint[0] = '\0';
    if (answer == NULL || request->transport != NULL || request->keep) {
        free(answer);
        (void)sp_fail(error, SP_TOOL_MISSING, "`--transport` needs the program `stackproof`");
        return ANSWER_ASK;
    }
    answer->arena.left = MEMORY_BYTES;
    answer->error = error;
    enum answer_end end = of_environment(
        answer, environment_read(variables, &answer->arena, &answer->environment));
    if (end == ANSWER_WHOLE && strcmp(request->images, option_none) != 0) {
        end = look_at_all(answer, request);
    }
    if (end == ANSWER_WHOLE) {
        end = finish(answer, listener, activation);
    }
    sp_arena_free(&answer->arena);
    free(answer);
    return end;
}
