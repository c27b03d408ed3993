#include "meta.h"

#include <string.h>

#include "../core/text.h"
#include "variables.h"

enum { MOST_MEMBERS = 512 };

/* Decodes a string; NULL where it is none, or holds what no path or variable can. */
static char *text_of(struct sp_json value, struct sp_arena *arena)
{
    size_t room = (size_t)(value.end - value.start) + 1;
    char *text = sp_arena_take(arena, room);
    return text != NULL && sp_json_text(value, text, room) ? text : NULL;
}

static bool is_null(struct sp_json value)
{
    return value.start == NULL || *value.start == 'n';
}

/* Finds a member; `start` is NULL where there is none. */
static struct sp_json member(struct sp_json object, const char *name)
{
    struct sp_json found = {.start = NULL, .end = NULL};
    (void)sp_json_member(object, name, &found);
    return found;
}

/* Returns whether a value is an object whose names are texts, or nothing at all. */
static bool is_mapping(struct sp_json value, struct sp_arena *arena)
{
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    if (is_null(value)) {
        return true;
    }
    if (*value.start != '{' || !sp_json_is_simple(value, MOST_MEMBERS)) {
        return false;
    }
    while (sp_json_next(value, &key, &at)) {
        const char *name = text_of(key, arena);
        if (name == NULL || *name == '\0') {
            return false;
        }
    }
    return true;
}

/* Reads a string that may be missing, null or empty: `other` stands for it then. */
static bool take_text(struct sp_json value, const char *other, struct sp_arena *arena,
                      const char **text)
{
    *text = is_null(value) ? other : text_of(value, arena);
    if (*text != NULL && **text == '\0') {
        *text = other;
    }
    return *text != NULL || is_null(value);
}

/* Returns whether a member is a string, or is not there. */
static bool is_text_or_missing(struct sp_json object, const char *name, struct sp_arena *arena)
{
    struct sp_json found = member(object, name);
    return found.start == NULL || text_of(found, arena) != NULL;
}

static bool is_text(struct sp_json value, struct sp_arena *arena)
{
    const char *text = value.start == NULL ? NULL : text_of(value, arena);
    return text != NULL && *text != '\0';
}

static bool is_mpi(struct sp_json value, struct sp_arena *arena)
{
    return is_null(value) || (is_mapping(value, arena) && is_text(member(value, "family"), arena) &&
                              is_text(member(value, "version"), arena) &&
                              is_text(member(value, "prefix"), arena) &&
                              is_text(member(value, "launcher"), arena));
}

static bool are_programs(struct sp_json value, struct sp_arena *arena)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    if (!is_mapping(value, arena)) {
        return false;
    }
    while (!is_null(value) && sp_json_next(value, NULL, &at)) {
        if (!is_text(at, arena)) {
            return false;
        }
    }
    return true;
}

static bool is_variable(const char *name)
{
    return name != NULL && strchr(name, '=') == NULL;
}

/* Returns whether a value is a list of operations: objects with `op` and a list of strings. */
static bool are_operations(struct sp_json value, struct sp_arena *arena)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    if (*value.start != '[') {
        return false;
    }
    while (sp_json_next(value, NULL, &at)) {
        struct sp_json entry = {.start = NULL, .end = NULL};
        struct sp_json entries = member(at, "value");
        if (!is_mapping(at, arena) || is_null(entries) || *entries.start != '[') {
            return false;
        }
        while (sp_json_next(entries, NULL, &entry)) {
            if (text_of(entry, arena) == NULL) {
                return false;
            }
        }
    }
    return true;
}

/* Where the variables of a view are. */
struct values {
    struct sp_json lists;
    struct sp_json scalars;
};

static struct values values_of(struct sp_json view)
{
    struct sp_json values = member(member(view, "env"), "values");
    return (struct values){.lists = member(values, "list"), .scalars = member(values, "scalar")};
}

static bool are_values(struct values values, struct sp_arena *arena)
{
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    if (!is_mapping(values.lists, arena) || !is_mapping(values.scalars, arena)) {
        return false;
    }
    while (!is_null(values.lists) && sp_json_next(values.lists, &key, &at)) {
        if (!is_variable(text_of(key, arena)) || !are_operations(at, arena)) {
            return false;
        }
    }
    at = (struct sp_json){.start = NULL, .end = NULL};
    while (!is_null(values.scalars) && sp_json_next(values.scalars, &key, &at)) {
        if (!is_variable(text_of(key, arena)) || (!is_null(at) && text_of(at, arena) == NULL)) {
            return false;
        }
    }
    return true;
}

static bool is_view(struct sp_json view, struct sp_arena *arena)
{
    const char *ignored = NULL;
    struct sp_json environment = member(view, "env");
    return is_mapping(view, arena) && is_mapping(environment, arena) &&
           is_mapping(member(environment, "values"), arena) &&
           take_text(member(view, "root"), "", arena, &ignored) &&
           take_text(member(view, "description"), "", arena, &ignored) &&
           are_values(values_of(view), arena);
}

static bool are_transports(const struct meta *meta, struct sp_arena *arena)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    struct sp_json ignored = {.start = NULL, .end = NULL};
    if (is_null(meta->transports)) {
        return true;
    }
    if (*meta->transports.start != '[') {
        return false;
    }
    while (sp_json_next(meta->transports, NULL, &at)) {
        const char *name = text_of(at, arena);
        if (name == NULL || !meta_view(meta, name, &ignored)) {
            return false;
        }
    }
    return true;
}

/* Returns what is not understood of our own part, or NULL. */
static const char *check_ours(struct sp_json ours, struct sp_arena *arena)
{
    if (!is_mapping(ours, arena)) {
        return "`stackproof`";
    }
    if (!are_programs(member(ours, "benchmarks"), arena)) {
        return "`stackproof.benchmarks`";
    }
    if (!is_text_or_missing(ours, "stack", arena) || !is_text_or_missing(ours, "lock", arena) ||
        !is_text_or_missing(ours, "architecture", arena)) {
        return "`stack`, `lock` or `architecture` of `stackproof`";
    }
    return NULL;
}

static const char *check_views(struct meta *meta, struct sp_arena *arena)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    if (!is_mapping(meta->views, arena)) {
        return "`views`";
    }
    while (!is_null(meta->views) && sp_json_next(meta->views, NULL, &at)) {
        meta->has_views = true;
        if (!is_view(at, arena)) {
            return "a view";
        }
    }
    return are_transports(meta, arena) ? NULL : "`stackproof.transports`";
}

const char *meta_read(const char *text, size_t length, struct sp_arena *arena, struct meta *meta)
{
    struct sp_json whole = {.start = NULL, .end = NULL};
    const char *ignored = NULL;
    *meta = (struct meta){.name = NULL};
    if (length > META_BYTES || !sp_text_is_utf8(text, length)) {
        return "it is too long, or not UTF-8";
    }
    if (!sp_json_read(text, length, &whole) || *whole.start != '{') {
        return "it is not an object of JSON";
    }
    if (!is_mapping(whole, arena)) {
        return "its names";
    }
    struct sp_json ours = member(whole, "stackproof");
    const char *fault = check_ours(ours, arena);
    if (fault != NULL) {
        return fault;
    }
    meta->views = member(whole, "views");
    meta->transports = member(ours, "transports");
    fault = check_views(meta, arena);
    if (fault != NULL) {
        return fault;
    }
    struct sp_json view = member(whole, "default-view");
    if (!take_text(member(whole, "name"), "unnamed", arena, &meta->name) ||
        !take_text(member(whole, "mount"), NULL, arena, &meta->mount) || meta->mount == NULL) {
        return "`name` or `mount`";
    }
    if ((!is_null(view) && !is_text(view, arena)) ||
        !take_text(view, NULL, arena, &meta->default_view)) {
        return "`default-view`";
    }
    if (!take_text(member(whole, "description"), "", arena, &ignored) ||
        !is_mpi(member(whole, "mpi"), arena)) {
        return "`description` or `mpi`";
    }
    struct sp_json mpi = member(whole, "mpi");
    meta->family = is_null(mpi) ? NULL : text_of(member(mpi, "family"), arena);
    return NULL;
}

bool meta_view(const struct meta *meta, const char *name, struct sp_json *view)
{
    return !is_null(meta->views) && sp_json_member(meta->views, name, view);
}

bool meta_forces_transport(const struct meta *meta, const char *view)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    char text[128];
    while (!is_null(meta->transports) && sp_json_next(meta->transports, NULL, &at)) {
        if (sp_json_text(at, text, sizeof text) && strcmp(text, view) == 0) {
            return true;
        }
    }
    return false;
}

/* The operations on one list variable, folded; each part is entries with colons between. */
struct folded {
    const char *front;
    const char *behind;
    const char *fixed; /* NULL: nothing */
    bool is_fixed;
};

/* What the entries of an operation are together. */
struct entries {
    const char *text; /* NULL: there are none */
    bool any;         /* one of them is not empty */
    bool full;        /* there is no room */
};

static struct entries entries_of(struct sp_json operation, const struct environment *environment,
                                 bool resolve)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    struct sp_json list = member(operation, "value");
    struct entries entries = {.text = NULL};
    while (!entries.full && sp_json_next(list, NULL, &at)) {
        const char *entry = text_of(at, environment->arena);
        entries.any = entries.any || (entry != NULL && *entry != '\0');
        if (entry != NULL && resolve) {
            entry = environment_resolve(environment, entry);
        }
        entries.text =
            entry != NULL ? sp_arena_join(environment->arena, entries.text, entry) : NULL;
        entries.full = entries.text == NULL;
    }
    return entries;
}

static bool is_operation(struct sp_json operation, const char *name)
{
    char text[16];
    struct sp_json found = member(operation, "op");
    return found.start != NULL && sp_json_text(found, text, sizeof text) && strcmp(text, name) == 0;
}

static bool fold(struct sp_json operations, const struct environment *environment,
                 struct folded *folded)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    struct sp_arena *arena = environment->arena;
    *folded = (struct folded){.front = NULL};
    while (sp_json_next(operations, NULL, &at)) {
        bool front = is_operation(at, "prepend");
        bool behind = is_operation(at, "append");
        bool fixed = is_operation(at, "set");
        struct entries entries = entries_of(at, environment, front || behind);
        const char **place = front ? &folded->front : &folded->behind;
        if (entries.full) {
            return false;
        }
        if (!front && !behind) {
            *folded = (struct folded){.fixed = fixed && entries.any ? entries.text : NULL,
                                      .is_fixed = true};
        } else if (entries.text != NULL) {
            *place = front ? sp_arena_join(arena, entries.text, *place)
                           : sp_arena_join(arena, *place, entries.text);
            if (*place == NULL) {
                return false;
            }
        }
    }
    return true;
}

static enum environment_end apply_list(const char *name, struct sp_json operations,
                                       struct environment *environment)
{
    struct folded folded;
    enum environment_end end = ENVIRONMENT_DONE;
    if (!fold(operations, environment, &folded)) {
        return ENVIRONMENT_FULL;
    }
    if (folded.is_fixed) {
        const char *value =
            folded.fixed != NULL ? environment_resolve(environment, folded.fixed) : NULL;
        if (folded.fixed != NULL && value == NULL) {
            return ENVIRONMENT_FULL;
        }
        end = environment_set(environment, name, value);
    }
    if (end == ENVIRONMENT_DONE && (folded.front != NULL || folded.behind != NULL)) {
        end = environment_extend(environment, name, folded.front, folded.behind);
    }
    return end;
}

enum environment_end meta_apply(struct sp_json view, struct environment *environment)
{
    struct values values = values_of(view);
    struct sp_json key = {.start = NULL, .end = NULL};
    struct sp_json at = {.start = NULL, .end = NULL};
    struct sp_json ignored = {.start = NULL, .end = NULL};
    enum environment_end end = ENVIRONMENT_DONE;
    while (end == ENVIRONMENT_DONE && !is_null(values.lists) &&
           sp_json_next(values.lists, &key, &at)) {
        const char *name = text_of(key, environment->arena);
        if (name == NULL || !variables_has(name)) {
            return name == NULL ? ENVIRONMENT_FULL : ENVIRONMENT_UNSURE;
        }
        /* Of a variable that is both, the scalar counts. */
        if (is_null(values.scalars) || !sp_json_member(values.scalars, name, &ignored)) {
            end = apply_list(name, at, environment);
        }
    }
    at = (struct sp_json){.start = NULL, .end = NULL};
    while (end == ENVIRONMENT_DONE && !is_null(values.scalars) &&
           sp_json_next(values.scalars, &key, &at)) {
        const char *name = text_of(key, environment->arena);
        const char *text = is_null(at) || name == NULL ? NULL : text_of(at, environment->arena);
        const char *value = text == NULL ? NULL : environment_resolve(environment, text);
        if (name == NULL || (!is_null(at) && value == NULL)) {
            return ENVIRONMENT_FULL;
        }
        end = variables_has(name) ? environment_set(environment, name, value) : ENVIRONMENT_UNSURE;
    }
    return end;
}
