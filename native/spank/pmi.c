#include "pmi.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/arena.h"
#include "../core/mountlist.h"
#include "child.h"
#include "meta.h"
#include "names.h"
#include "report.h"
#include "unsquash.h"

enum { MEMORY_BYTES = 16 << 20, ANSWER_BYTES = 1 << 20, MOST_ALONE = 4 };

static const char variable[] = "SLURM_MPI_TYPE";
static const char no_type[] = "none";
static const char self[] = "/proc/self/exe";

/* The families of mpi/families have the same, and rule K25 of the doctor. `openmpi` is `none`. */
static const struct family {
    const char *name;
    const char *wanted;
    bool has_long_addresses; /* of UCX, in requests of PMI-1 */
    const char *alone[MOST_ALONE];
} families[] = {
    {"mpich", "pmi2", true, {"none", "openmpi"}},
    {"intel-mpi", "pmi2", false, {"none", "openmpi"}},
    {"cray-mpich", "cray_shasta", false, {"none", "openmpi"}},
    {"openmpi", "pmix", false, {"none", "openmpi", "pmi2", "cray_shasta"}},
};

/* What mpirun starts by srun: it lets the ranks find each other by itself. */
static const char *const helpers[] = {"hydra_pmi_proxy", "hydra_bstrap_proxy", "prted", "orted"};

static char *asked; /* by the user's environment */

static const struct family *family_named(const char *name)
{
    for (size_t number = 0; number < sizeof families / sizeof families[0]; number++) {
        if (strcmp(families[number].name, name) == 0) {
            return &families[number];
        }
    }
    return NULL;
}

const char *pmi_wanted(const char *family)
{
    const struct family *known = family_named(family);
    return known != NULL ? known->wanted : NULL;
}

bool pmi_leaves_alone(const char *family, const char *type)
{
    const struct family *known = family_named(family);
    for (int number = 0; known != NULL && number < MOST_ALONE; number++) {
        if (known->alone[number] != NULL && strcmp(known->alone[number], type) == 0) {
            return true;
        }
    }
    return false;
}

void pmi_remember(void)
{
    const char *value = getenv(variable);
    free(asked);
    asked = value != NULL && *value != '\0' ? strdup(value) : NULL;
}

static void free_texts(char **texts)
{
    for (size_t number = 0; texts != NULL && texts[number] != NULL; number++) {
        free(texts[number]);
    }
    free((void *)texts);
}

/* Returns the texts of a file that end with NUL, with room for two more. NULL where it cannot be
 * read whole, as the environment of an srun that users may execute and not read. */
static char **texts_of(const char *path)
{
    FILE *stream = fopen(path, "re");
    char **texts = stream != NULL ? (char **)calloc(3, sizeof *texts) : NULL;
    char *text = NULL;
    size_t room = 0;
    size_t count = 0;
    bool is_whole = texts != NULL;
    while (is_whole && getdelim(&text, &room, '\0', stream) > 0) {
        char **larger = (char **)realloc((void *)texts, (count + 4) * sizeof *texts);
        is_whole = larger != NULL;
        if (is_whole) {
            texts = larger;
            texts[count++] = text;
            texts[count] = texts[count + 1] = texts[count + 2] = NULL;
            text = NULL;
            room = 0;
        }
    }
    free(text);
    if (stream != NULL) {
        is_whole = is_whole && feof(stream);
        (void)fclose(stream);
    }
    if (!is_whole) {
        free_texts(texts);
        texts = NULL;
    }
    return texts;
}

/* Returns what `--mpi` is on the command line, empty where it is not there; a word of the program's
 * own counts as well, since only srun knows where its options end. */
static const char *option_of(char *const words[])
{
    for (size_t number = 1; words[0] != NULL && words[number] != NULL; number++) {
        const char *equals = strchr(words[number], '=');
        size_t length = equals != NULL ? (size_t)(equals - words[number]) : strlen(words[number]);
        if (length >= strlen("--mp") && strncmp(words[number], "--mpi", length) == 0) {
            const char *next = words[number + 1] != NULL ? words[number + 1] : "";
            return equals != NULL ? equals + 1 : next;
        }
    }
    return "";
}

static bool starts_helpers(char *const words[])
{
    for (size_t number = 0; words[number] != NULL; number++) {
        const char *slash = strrchr(words[number], '/');
        const char *name = slash != NULL ? slash + 1 : words[number];
        for (size_t helper = 0; helper < sizeof helpers / sizeof helpers[0]; helper++) {
            if (strcmp(name, helpers[helper]) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the family of the first image that has an MPI, NULL where none says so. */
static const struct family *family_of(const char *mounts)
{
    struct sp_arena arena = {.left = MEMORY_BYTES};
    struct sp_mount_list list;
    struct sp_error error;
    const struct family *family = NULL;
    if (sp_mount_list_parse(mounts, strlen(mounts), &list, NULL, NULL, &error) != 0) {
        return NULL;
    }
    for (size_t number = 0; family == NULL && number < list.count; number++) {
        struct meta meta;
        const char *text = NULL;
        size_t length = 0;
        if (unsquash_meta(&arena, list.entries[number].image, &text, &length, &error) == 0 &&
            meta_read(text, length, &arena, &meta) == NULL && meta.family != NULL) {
            family = family_named(meta.family);
        }
    }
    sp_mount_list_free(&list);
    sp_arena_free(&arena);
    return family;
}

/* Returns what a program writes, to be freed; NULL where it does not end well. */
static char *output_of(char *program, char *first, char *second)
{
    char *argv[] = {program, first, second, NULL};
    struct child child;
    int started = 0;
    char *text = NULL;
    if (child_run(argv, environ, ANSWER_BYTES, &child, &started) == 0 && child.status == 0 &&
        asprintf(&text, "%.*s\n%s", (int)child.length, child.output, child.complaint) < 0) {
        text = NULL;
    }
    if (started) {
        child_free(&child);
    }
    return text;
}

/* Returns whether srun has this type: Debian's has `pmix` only beside another package. */
static bool is_offered(const char *type)
{
    char program[] = "/proc/self/exe";
    char list[] = "--mpi=list";
    char *text = output_of(program, list, NULL);
    char *rest = text;
    bool is_there = false;
    while (rest != NULL && !is_there) {
        is_there = strcmp(strsep(&rest, " \t\n,:"), type) == 0;
    }
    free(text);
    return is_there;
}

/* Returns the scontrol beside this srun, to be freed: PATH may be without Slurm's folder, or have
 * another release first. */
static char *scontrol(void)
{
    char folder[PATH_MAX];
    char *path = NULL;
    ssize_t length = readlink(self, folder, sizeof folder - 1);
    while (length > 0 && folder[length - 1] != '/') {
        length--;
    }
    if (length > 0 && asprintf(&path, "%.*sscontrol", (int)length, folder) < 0) {
        return NULL;
    }
    if (path == NULL || access(path, X_OK) != 0) {
        free(path);
        path = strdup("scontrol");
    }
    return path;
}

/* Returns the site's default, to be freed; NULL where it cannot be had. Releases before 23.02 have
 * written it where they read it, by now. */
static char *site_default(void)
{
    const char *written = getenv(variable);
    char show[] = "show";
    char config[] = "config";
    char *text = NULL;
    char *type = NULL;
    if (written != NULL && *written != '\0') {
        return strdup(written);
    }
    char *program = scontrol();
    text = program != NULL ? output_of(program, show, config) : NULL;
    free(program);
    char *line = text != NULL ? strstr(text, "\nMpiDefault ") : NULL;
    if (line != NULL) {
        line += strcspn(line, "=");
        line += strspn(line, "= ");
        size_t length = strcspn(line, " \n");
        bool is_unset = length == 0 || strncmp(line, "(null)", length) == 0; /* 24.11 */
        type = is_unset ? strdup(no_type) : strndup(line, length);
    }
    free(text);
    return type;
}

static void warn(const struct family *family, const char *type, bool is_there)
{
    struct sp_error error;
    (void)sp_fail(&error, SP_SINGLETONS,
                  "the MPI of the image is %s, and srun runs with --mpi=%s: "
                  "each rank will be alone",
                  family->name, type);
    (void)(is_there ? sp_hint(&error, "say --mpi=%s", family->wanted)
                    : sp_hint(&error, "this Slurm has no --mpi=%s: use salloc and mpirun",
                              family->wanted));
    report_error(&error);
}

/* Becomes the same srun, with the user's environment and the choice; returns where it cannot. */
static void start_anew(char *const words[], const char *type)
{
    char **environment = texts_of("/proc/self/environ");
    char *added[2] = {NULL, NULL};
    size_t count = 0;
    sigset_t none;
    sigset_t before;
    char program[PATH_MAX];
    if (environment != NULL && asprintf(&added[0], "%s=%s", variable, type) > 0 &&
        asprintf(&added[1], NAME_PMI "=%s", type) > 0) {
        for (size_t number = 0; environment[number] != NULL; number++) {
            char *text = environment[number];
            if (strncmp(text, "SLURM_MPI_TYPE=", strlen("SLURM_MPI_TYPE=")) != 0 &&
                strncmp(text, NAME_PMI "=", strlen(NAME_PMI "=")) != 0) {
                environment[count++] = text;
            } else {
                free(text);
            }
        }
        environment[count++] = added[0];
        environment[count++] = added[1];
        environment[count] = NULL;
        (void)sigemptyset(&none); /* srun has blocked what it waits for */
        (void)sigprocmask(SIG_SETMASK, &none, &before);
        ssize_t length = readlink(self, program, sizeof program - 1);
        if (length > 0) { /* by its path: pkill(1) would know the link as `exe` */
            program[length] = '\0';
            (void)execve(program, words, environment);
        }
        (void)execve(self, words, environment);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        added[0] = added[1] = NULL;
    }
    free(added[0]);
    free(added[1]);
    free_texts(environment);
}

static void choose(char *const words[], const struct family *family)
{
    const char *option = option_of(words);
    const char *ours = getenv(NAME_PMI);
    bool is_ours = asked != NULL && ours != NULL && strcmp(asked, ours) == 0;
    const char *variables = is_ours ? NULL : asked;
    const char *said = *option != '\0' ? option : variables;
    if (said != NULL) {
        if (pmi_leaves_alone(family->name, said)) {
            warn(family, said, true);
        }
        return;
    }
    char *type = is_ours ? strdup(asked) : site_default();
    if (type == NULL ||
        (is_ours ? strcmp(type, family->wanted) == 0 : !pmi_leaves_alone(family->name, type))) {
        free(type);
        return;
    }
    bool is_there = is_offered(family->wanted);
    /* A plug-in that takes the choice away would otherwise have it made for ever. */
    bool has_started_anew = ours != NULL && strcmp(ours, family->wanted) == 0;
    if (is_there && !has_started_anew) {
        start_anew(words, family->wanted);
    }
    warn(family, type, is_there);
    free(type);
}

void pmi_choose(const char *mounts)
{
    char **words = texts_of("/proc/self/cmdline");
    if (words != NULL && words[0] != NULL && !starts_helpers(words)) {
        const struct family *family = family_of(mounts);
        if (family != NULL && family->has_long_addresses) {
            /* Slurm reads 1024 bytes of a request of PMI-1 and takes the rest for another one
             * (MAX_READLINE in src/plugins/mpi/pmi2/pmi1.c, 22.05 to 26.05), and MPICH sends UCX's
             * addresses in values of up to 1022. Shorter ones are UCX's since 1.12. */
            (void)setenv("UCX_ADDRESS_VERSION", "v2", 0);
        }
        if (family != NULL) {
            choose(words, family);
        }
    }
    free_texts(words);
}
