#include "decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elfread.h"
#include "inside.h"
#include "mpiabi.h"

enum { VARIABLE_BYTES = 128 * 1024 }; /* MAX_ARG_STRLEN of Linux */

/* Everything that one decision works on. */
struct work {
    const struct sp_manifest *manifest;
    const struct sp_wish *wish;
    const struct sp_container *container;
    struct sp_search search;
    struct sp_error *error;
    struct sp_elf elf;
    struct sp_found_list found;
    const char *path;
    const struct sp_row *provides;
};

bool sp_environment_value(struct sp_json environment, const char *name, char *value, size_t room)
{
    struct sp_json at = {.start = NULL, .end = NULL};
    size_t length = strlen(name);
    bool there = false;
    while (environment.start != NULL && sp_json_next(environment, NULL, &at)) {
        /* Only what begins with the name is decoded: there may be many long ones. */
        if ((size_t)(at.end - at.start) > length + 2 && at.start[0] == '"' &&
            strncmp(at.start + 1, name, length) == 0 && at.start[length + 1] == '=') {
            there = sp_json_text(at, value, room);
            if (there) {
                memmove(value, value + length + 1, strlen(value + length + 1) + 1);
            }
        }
    }
    return there;
}

/* Fails unless the container has what the artefact must be told. */
static int check_environment(struct work *work, char *value)
{
    for (size_t index = 0; index < work->manifest->environment.count; index++) {
        const char *const *words = work->manifest->environment.rows[index].words;
        if (strcmp(words[0], work->wish->level) != 0) {
            continue;
        }
        if (!sp_environment_value(work->container->environment, words[1], value, VARIABLE_BYTES) ||
            strcmp(value, words[2]) != 0) {
            (void)sp_fail(work->error, SP_INJECTION_FAILS,
                          "the container does not have %s=%s set, which `%s` needs", words[1],
                          words[2], work->manifest->name);
            return sp_hint(work->error, "start it with --env %s=%s", words[1], words[2]);
        }
    }
    return 0;
}

/* Returns whether this processor has a level of the x86-64 psABI; unknown ones it has not. */
static bool has_level(const char *level)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool second = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
                  __builtin_cpu_supports("popcnt");
    bool third = second && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                 __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    bool fourth = third && __builtin_cpu_supports("avx512f") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return strcmp(level, "x86-64-v1") == 0 || (second && strcmp(level, "x86-64-v2") == 0) ||
           (third && strcmp(level, "x86-64-v3") == 0) ||
           (fourth && strcmp(level, "x86-64-v4") == 0);
#else
    (void)level;
    return false;
#endif
}

/* Opens and reads a file that was found. */
static int read_elf(struct work *work, const struct sp_found *file)
{
    uint64_t size = 0;
    work->elf.descriptor = sp_inside_reopen(file->descriptor, &size);
    work->elf.memory = NULL;
    work->elf.size = size;
    work->path = file->path;
    if (work->elf.descriptor < 0) {
        return sp_fail(work->error, SP_INJECTION_FAILS, "`%s` of the container cannot be read",
                       file->path);
    }
    if (sp_elf_read(&work->elf, file->path, work->error) != 0) {
        (void)close(work->elf.descriptor);
        work->elf.descriptor = -1;
        work->error->reason = SP_INJECTION_FAILS;
        return -1;
    }
    return 0;
}

static int check_abi(struct work *work, const char *name)
{
    const struct sp_row *abi = sp_rows_named(&work->manifest->abis, name);
    const struct sp_row *lacks = sp_rows_named(&work->manifest->lacks, name);
    if (abi == NULL || abi->count < 2) {
        return 0;
    }
    const char *shown = sp_abi_of(&work->elf);
    if (strcmp(shown, abi->words[1]) != 0) {
        (void)sp_fail(work->error, SP_INJECTION_FAILS,
                      "`%s` of the container is an MPI of the %s ABI, `%s` has one of the %s ABI",
                      work->path, shown, work->manifest->name, abi->words[1]);
        return sp_hint(work->error, "programs of one ABI do not run with an MPI of another one");
    }
    for (size_t index = 1; lacks != NULL && index < lacks->count; index++) {
        if (sp_elf_exports(&work->elf, lacks->words[index])) {
            (void)sp_fail(work->error, SP_INJECTION_FAILS,
                          "`%s` of the container has %s, which the other MPI has not", work->path,
                          lacks->words[index]);
            return sp_hint(work->error, "inject an MPI that is not older than the container's");
        }
    }
    return 0;
}

/* Takes a node that must be provided; fails the walk where it is not. */
static bool is_provided(void *context, const char *node)
{
    struct work *work = context;
    if (work->provides != NULL && sp_row_has(work->provides, node)) {
        return true;
    }
    (void)sp_fail(work->error, SP_INJECTION_FAILS,
                  "`%s` of the container %s %s, which `%s` has not", work->path,
                  work->wish->asker_count > 0 ? "needs" : "has", node, work->manifest->name);
    (void)sp_hint(work->error, "inject a release that has %s, or leave the container its own",
                  node);
    return false;
}

/* Returns 1 where files that ask for the library are known, and all is provided; -1 where not. */
static int check_askers(struct work *work, const char *name)
{
    int result = 0;
    for (size_t index = 0; index < work->wish->asker_count && result >= 0; index++) {
        work->found.count = 0;
        if (!sp_search_add(&work->search, work->wish->askers[index], &work->found)) {
            continue;
        }
        if (read_elf(work, &work->found.files[0]) != 0) {
            result = -1;
        } else {
            /* In another container a file of that name may need something else. */
            if (sp_elf_needs(&work->elf, name)) {
                result = sp_elf_each_need(&work->elf, name, is_provided, work) ? 1 : -1;
            }
            (void)close(work->elf.descriptor);
        }
        sp_found_close(&work->found);
    }
    return result;
}

/* Fails unless one file of the container may be covered by another one of that name. */
static int check_file(struct work *work, const char *name, const struct sp_found *file, bool strict)
{
    if (read_elf(work, file) != 0) {
        return -1;
    }
    int result = 0;
    if (work->elf.machine != work->manifest->machine) {
        result = sp_fail(work->error, SP_INJECTION_FAILS,
                         "`%s` of the container is for another machine than `%s`", file->path,
                         work->manifest->name);
    } else {
        result = check_abi(work, name);
    }
    if (result == 0 && strict && !sp_elf_each_definition(&work->elf, is_provided, work)) {
        result = -1;
    }
    (void)close(work->elf.descriptor);
    return result;
}

/* Decides on one library of the artefact, and takes the container's files of that name. */
static int decide_row(struct work *work, size_t row, struct sp_decision *decision)
{
    const char *name = work->manifest->replaces.rows[row].words[1];
    struct sp_found_list found; /* large: only its count is set */
    found.count = 0;
    sp_search_find(&work->search, name, SP_SEARCH_FILES, &found);
    if (found.count == 0) {
        return 0;
    }
    work->provides = sp_rows_named(&work->manifest->provides, name);
    int known = check_askers(work, name);
    int result = known < 0 ? -1 : 0;
    for (size_t index = 0; index < found.count; index++) {
        if (result == 0) {
            result = check_file(work, name, &found.files[index], known == 0);
        }
        if (result == 0 && decision->count < SP_MOST_PUTS) {
            decision->puts[decision->count++] =
                (struct sp_put){.row = row, .file = found.files[index]};
        } else {
            (void)close(found.files[index].descriptor);
        }
    }
    return result;
}

static bool is_unused(const struct sp_wish *wish, const char *name)
{
    for (size_t index = 0; index < wish->unused_count; index++) {
        if (strcmp(wish->unused[index], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Fails where a part of the container's MPI would stay beside the other MPI. */
static int check_parts(struct work *work)
{
    for (size_t index = 0; index < work->manifest->parts.count; index++) {
        const char *name = work->manifest->parts.rows[index].words[0];
        if (is_unused(work->wish, name)) {
            continue;
        }
        work->found.count = 0;
        sp_search_find(&work->search, name, 1, &work->found);
        if (work->found.count > 0) {
            (void)sp_fail(work->error, SP_INJECTION_FAILS,
                          "`%s` of the container would stay beside the MPI of `%s`",
                          work->found.files[0].path, work->manifest->name);
            sp_found_close(&work->found);
            return sp_hint(work->error,
                           "inject an MPI that has it too, or say --unused=%s if nothing uses it",
                           name);
        }
    }
    return 0;
}

/* Counts the nodes of a row that a library defines. */
struct wanted {
    const struct sp_row *row;
    size_t count;
};

static bool count_wanted(void *context, const char *node)
{
    struct wanted *wanted = context;
    wanted->count += sp_row_has(wanted->row, node) ? 1 : 0;
    return true;
}

/* Fails unless a library that stays the container's own defines what the artefact needs of it. */
static int check_need(struct work *work, const struct sp_row *need)
{
    int result = 0;
    work->found.count = 0;
    sp_search_find(&work->search, need->words[0], 1, &work->found);
    if (work->found.count == 0) {
        (void)sp_fail(work->error, SP_INJECTION_FAILS,
                      "the container has no `%s`, which `%s` needs", need->words[0],
                      work->manifest->name);
        return sp_hint(work->error, "its C library is another one than that of the artefact");
    }
    result = read_elf(work, &work->found.files[0]);
    struct wanted wanted = {.row = need, .count = 0};
    if (result == 0) {
        (void)sp_elf_each_definition(&work->elf, count_wanted, &wanted);
    }
    /* Most often all are there, seen in one walk. */
    bool all = wanted.count == need->count - 1;
    for (size_t index = 1; result == 0 && !all && index < need->count; index++) {
        if (!sp_elf_defines(&work->elf, need->words[index])) {
            (void)sp_fail(work->error, SP_INJECTION_FAILS,
                          "`%s` of the container is too old: `%s` needs %s",
                          work->found.files[0].path, work->manifest->name, need->words[index]);
            result = sp_hint(work->error, "build the artefact on the older system");
        }
    }
    if (work->elf.descriptor >= 0) {
        (void)close(work->elf.descriptor);
    }
    sp_found_close(&work->found);
    return result;
}

static int decide(struct work *work, struct sp_decision *decision)
{
    const struct sp_manifest *manifest = work->manifest;
    for (size_t row = 0; row < manifest->replaces.count; row++) {
        if (strcmp(manifest->replaces.rows[row].words[0], work->wish->level) == 0 &&
            decide_row(work, row, decision) != 0) {
            return -1;
        }
    }
    if (decision->count == 0) {
        (void)sp_fail(work->error, SP_INJECTION_FAILS,
                      "the container has nothing that `%s` could replace at the level %s",
                      manifest->name, work->wish->level);
        return sp_hint(work->error, "say where it is: --folder=DIR");
    }
    if (strcmp(work->wish->level, "mpi") == 0 && check_parts(work) != 0) {
        return -1;
    }
    for (size_t index = 0; index < manifest->needs.count; index++) {
        if (check_need(work, &manifest->needs.rows[index]) != 0) {
            return -1;
        }
    }
    return 0;
}

int sp_decide(const struct sp_manifest *manifest, const struct sp_wish *wish,
              const struct sp_container *container, struct sp_decision *decision,
              struct sp_error *error)
{
    struct work *work = calloc(1, sizeof *work);
    char *value = malloc(VARIABLE_BYTES);
    int result = -1;
    decision->count = 0;
    if (work == NULL || value == NULL) {
        free(work);
        free(value);
        return sp_fail(error, SP_MOUNT_FAILED, "no memory");
    }
    work->manifest = manifest;
    work->wish = wish;
    work->container = container;
    work->error = error;
    if (manifest->isa != NULL && !has_level(manifest->isa)) {
        (void)sp_fail(error, SP_INJECTION_FAILS, "`%s` is for processors of the level %s",
                      manifest->name, manifest->isa);
    } else if (check_environment(work, value) == 0) {
        if (!sp_environment_value(container->environment, "LD_LIBRARY_PATH", value,
                                  VARIABLE_BYTES)) {
            value[0] = '\0';
        }
        sp_search_begin(&work->search, container->root, wish->folders, wish->folder_count, value);
        result = decide(work, decision);
        sp_search_end(&work->search);
    }
    free(work);
    free(value);
    return result;
}

void sp_decision_close(struct sp_decision *decision)
{
    for (size_t index = 0; index < decision->count; index++) {
        (void)close(decision->puts[index].file.descriptor);
    }
    decision->count = 0;
}
