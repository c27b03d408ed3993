#include "options.h"

#include <string.h>

const char hook_usage[] =
    "usage: stackproof-oci-hook --artefact=DIR --level=LEVEL [OPTION...]\n"
    "\n"
    "A hook of container runtimes: puts libraries of an artefact over those of the container, if\n"
    "they fit. Reads the state of the container from standard input.\n"
    "\n"
    "  --artefact=DIR       a variant of an artefact: the folder with meta/abi.manifest\n"
    "  --level=LEVEL        mpi, libfabric or libcxi\n"
    "  --folder=DIR         where the container has libraries, besides the usual places\n"
    "  --asks=FILE          a file of the container that needs what is replaced\n"
    "  --unused=NAME        a part of the container's MPI that nothing loads\n"
    "  --on-mismatch=WHAT   fail, or skip to start the container as it is\n"
    "  --stage=STAGE        createContainer, createRuntime or prestart\n"
    "  --log=FILE           a file to add a line to\n"
    "  --try=ROOT           say what would be done with a root folder, and do nothing\n"
    "  --help, --version\n";

static int usage(struct sp_error *error, const char *what, const char *word)
{
    (void)sp_fail(error, SP_USAGE, "%s `%.200s`", what, word);
    return sp_hint(error, "see stackproof-oci-hook --help");
}

static const char *value_of(const char *word, const char *name)
{
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static int add(const char **words, size_t *count, const char *word, struct sp_error *error)
{
    if (*count == HOOK_MOST_WORDS) {
        return usage(error, "one word too many:", word);
    }
    words[(*count)++] = word;
    return 0;
}

static int parse_choice(const char *word, struct hook_options *options, struct sp_error *error)
{
    const char *value = value_of(word, "--on-mismatch");
    if (value != NULL) {
        options->skip = strcmp(value, "skip") == 0;
        return options->skip || strcmp(value, "fail") == 0
                   ? 0
                   : usage(error, "not what to do on a mismatch:", value);
    }
    value = value_of(word, "--stage");
    if (value != NULL) {
        bool early = strcmp(value, "createRuntime") == 0 || strcmp(value, "prestart") == 0;
        options->stage = early ? STAGE_RUNTIME : STAGE_CREATE_CONTAINER;
        return early || strcmp(value, "createContainer") == 0 ? 0
                                                              : usage(error, "not a stage:", value);
    }
    if (strcmp(word, "--help") == 0) {
        options->help = true;
    } else if (strcmp(word, "--version") == 0) {
        options->version = true;
    } else {
        return usage(error, "not an option:", word);
    }
    return 0;
}

static int parse_option(const char *word, struct hook_options *options, struct sp_error *error)
{
    struct sp_wish *wish = &options->wish;
    const struct {
        const char *name;
        const char **single;
        const char **words;
        size_t *count;
    } known[] = {
        {"--artefact", &options->artefact, NULL, NULL},
        {"--level", &wish->level, NULL, NULL},
        {"--log", &options->log, NULL, NULL},
        {"--try", &options->try_root, NULL, NULL},
        {"--folder", NULL, options->folders, &wish->folder_count},
        {"--asks", NULL, options->askers, &wish->asker_count},
        {"--unused", NULL, options->unused, &wish->unused_count},
    };
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        const char *value = value_of(word, known[index].name);
        if (value != NULL && known[index].single != NULL) {
            *known[index].single = value;
            return 0;
        }
        if (value != NULL) {
            return add(known[index].words, known[index].count, value, error);
        }
    }
    return parse_choice(word, options, error);
}

int hook_options_parse(char **argv, struct hook_options *options, struct sp_error *error)
{
    static const char *const levels[] = {"mpi", "libfabric", "libcxi"};
    bool known = false;
    *options = (struct hook_options){.stage = STAGE_CREATE_CONTAINER};
    for (char **word = argv[0] == NULL ? argv : argv + 1; *word != NULL; word++) {
        if (parse_option(*word, options, error) != 0) {
            return -1;
        }
    }
    options->wish.folders = options->folders;
    options->wish.askers = options->askers;
    options->wish.unused = options->unused;
    if (options->help || options->version) {
        return 0;
    }
    if (options->artefact == NULL || options->wish.level == NULL) {
        (void)sp_fail(error, SP_USAGE, "say --artefact=DIR and --level=LEVEL");
        return sp_hint(error, "see stackproof-oci-hook --help");
    }
    for (size_t index = 0; index < sizeof levels / sizeof levels[0]; index++) {
        known = known || strcmp(options->wish.level, levels[index]) == 0;
    }
    return known ? 0 : usage(error, "not a level:", options->wish.level);
}
