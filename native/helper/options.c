#include "options.h"

#include <string.h>

const char usage_text[] =
    "usage: stackproof-mount [OPTION...] --images=IMAGE:MOUNT[,IMAGE:MOUNT...] [--] COMMAND "
    "[ARGUMENT...]\n"
    "\n"
    "Mounts SquashFS images where only COMMAND sees them, then becomes COMMAND.\n"
    "\n"
    "  --images=LIST        images and where to mount them\n"
    "  --labels=LABEL,...   what the images were asked for, one for each, perhaps empty\n"
    "  --overlay=LIST       images to show above the one at the same MOUNT; may be repeated\n"
    "  --way=WAY            root, setuid, userns, or auto for the first that is permitted\n"
    "  --verbose            say which way was taken\n"
    "  --help, --version\n";

static int usage(struct sp_error *error, const char *what, const char *word)
{
    (void)sp_fail(error, SP_USAGE, "%s `%.200s`", what, word);
    return sp_hint(error, "see stackproof-mount --help");
}

/* Returns what stands behind `name=` in `word`, or NULL if that is another option. */
static const char *value_of(const char *word, const char *name)
{
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

/* Cuts them out of argv: nothing else has a text that lives long enough. */
static int parse_labels(char *text, struct options *options, struct sp_error *error)
{
    if (options->labels != NULL) {
        return usage(error, "a second `--labels`:", text);
    }
    options->labels = text;
    return 0;
}

static int parse_way(const char *word, enum way *way, struct sp_error *error)
{
    static const struct {
        const char *word;
        enum way way;
    } ways[] = {
        {"auto", WAY_AUTO}, {"root", WAY_ROOT}, {"setuid", WAY_SETUID}, {"userns", WAY_USERNS}};
    for (size_t index = 0; index < sizeof ways / sizeof ways[0]; index++) {
        if (strcmp(word, ways[index].word) == 0) {
            *way = ways[index].way;
            return 0;
        }
    }
    return usage(error, "not a way to mount:", word);
}

static int parse_images(const char *text, struct options *options, sp_problem_listener *listener,
                        struct sp_error *error)
{
    if (options->images.count > 0) {
        return usage(error, "a second `--images`:", text);
    }
    return sp_mount_list_parse(text, strlen(text), &options->images, listener, NULL, error);
}

static int parse_overlay(const char *text, struct options *options, sp_problem_listener *listener,
                         struct sp_error *error)
{
    if (options->overlay_count == MAX_OVERLAYS) {
        return usage(error, "one `--overlay` too many:", text);
    }
    return sp_mount_list_parse(text, strlen(text), &options->overlays[options->overlay_count++],
                               listener, NULL, error);
}

static int parse_option(char *word, struct options *options, sp_problem_listener *listener,
                        struct sp_error *error)
{
    const char *value = value_of(word, "--images");
    if (value != NULL) {
        return parse_images(value, options, listener, error);
    }
    value = value_of(word, "--labels");
    if (value != NULL) {
        return parse_labels(word + (value - word), options, error);
    }
    value = value_of(word, "--overlay");
    if (value != NULL) {
        return parse_overlay(value, options, listener, error);
    }
    value = value_of(word, "--way");
    if (value != NULL) {
        return parse_way(value, &options->way, error);
    }
    if (strcmp(word, "--verbose") == 0) {
        options->verbose = true;
    } else if (strcmp(word, "--help") == 0) {
        options->help = true;
    } else if (strcmp(word, "--version") == 0) {
        options->version = true;
    } else {
        return usage(error, "not an option:", word);
    }
    return 0;
}

int options_parse(char **argv, struct options *options, sp_problem_listener *listener,
                  struct sp_error *error)
{
    char **word = argv[0] == NULL ? argv : argv + 1;
    for (; *word != NULL && (*word)[0] == '-'; word++) {
        if (strcmp(*word, "--") == 0) {
            word++;
            break;
        }
        if (parse_option(*word, options, listener, error) != 0) {
            return -1;
        }
    }
    options->command = word;
    if (options->help || options->version) {
        return 0;
    }
    if (options->images.count == 0 || *word == NULL) {
        (void)sp_fail(error, SP_USAGE, "say --images=LIST and COMMAND");
        return sp_hint(error, "see stackproof-mount --help");
    }
    return options->labels == NULL ? 0
                                   : sp_mount_list_label(&options->images, options->labels, error);
}

int options_overlays(const struct options *options, struct sp_mount_list *list,
                     struct sp_error *error)
{
    list->count = 0;
    for (size_t index = 0; index < options->overlay_count; index++) {
        const struct sp_mount_list *one = &options->overlays[index];
        for (size_t entry = 0; entry < one->count; entry++) {
            if (list->count == SP_MAX_IMAGES) {
                return sp_fail(error, SP_USAGE, "more than %d overlays", SP_MAX_IMAGES);
            }
            list->entries[list->count++] = one->entries[entry];
        }
    }
    return 0;
}

void options_free(struct options *options)
{
    sp_mount_list_free(&options->images);
    for (size_t index = 0; index < options->overlay_count; index++) {
        sp_mount_list_free(&options->overlays[index]);
    }
}
