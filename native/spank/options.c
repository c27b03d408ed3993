#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "../core/mountlist.h"
#include "../core/text.h"
#include "report.h"

const char option_none[] = "none";

static char *given[OPTIONS]; /* Slurm's callbacks have no room for a context of ours */
static bool image_asked;

static int take(int option, const char *text, int remote);

/* Slurm's table wants texts that may be changed, though it changes none. */
static char texts[OPTIONS][3][96] = {
    [OPTION_IMAGE] = {"image", "IMAGE[:MOUNT][,...]",
                      "mount these SquashFS images for the job; none: mount nothing"},
    [OPTION_VIEW] = {"view", "[NAME:]VIEW[,...]",
                     "set the variables of these views of the images; none: set nothing"},
    [OPTION_TRANSPORT] = {"transport", "NAME", "make the MPI of the image use one path, as tcp"},
};

#define ROW(option)                                                                                \
    {                                                                                              \
        texts[option][0], texts[option][1], texts[option][2], 1, option, take                      \
    }

static struct spank_option table[OPTIONS] = {
    [OPTION_IMAGE] = ROW(OPTION_IMAGE),
    [OPTION_VIEW] = ROW(OPTION_VIEW),
    [OPTION_TRANSPORT] = ROW(OPTION_TRANSPORT),
};

int options_register(spank_t spank)
{
    for (int option = 0; option < OPTIONS; option++) {
        if (spank_option_register(spank, &table[option]) != ESPANK_SUCCESS) {
            return -1;
        }
    }
    return 0;
}

void options_forget_inherited(void)
{
    /* The names are made in src/common/plugstack.c of Slurm (spank.c since 23.11):
     * spank_process_env_options. */
    static const char *const names[OPTIONS] = {
        [OPTION_IMAGE] = "SLURM_SPANK__SLURM_SPANK_OPTION_stackproof_image",
        [OPTION_VIEW] = "SLURM_SPANK__SLURM_SPANK_OPTION_stackproof_view",
        [OPTION_TRANSPORT] = "SLURM_SPANK__SLURM_SPANK_OPTION_stackproof_transport",
    };
    for (int option = 0; option < OPTIONS; option++) {
        (void)unsetenv(names[option]);
    }
}

const char *option_given(enum option option)
{
    return given[option];
}

bool option_image_was_asked(void)
{
    return image_asked;
}

const char *option_name(enum option option)
{
    return table[option].name;
}

/* Where every problem of a list is told, and not the first alone. */
static void tell(void *context, const struct sp_error *problem)
{
    (void)context;
    report_error(problem);
}

static int check_names(enum option option, const char *text, struct sp_error *error)
{
    size_t length = strlen(text);
    if (length == 0 || strstr(text, ",,") != NULL || text[0] == ',' || text[length - 1] == ',') {
        return sp_fail(error, SP_USAGE, "--%s: a name is empty in `%s`", option_name(option), text);
    }
    if (!sp_text_is_printable(text, length)) {
        return sp_fail(error, SP_USAGE, "--%s: `%s` has an unprintable character",
                       option_name(option), text);
    }
    return 0;
}

int option_check(enum option option, const char *text, struct sp_error *error)
{
    struct sp_mount_list list;
    if (option != OPTION_IMAGE) {
        return check_names(option, text, error);
    }
    if (strcmp(text, option_none) == 0) {
        return 0;
    }
    if (sp_mount_list_parse(text, strlen(text), &list, tell, NULL, error) != 0) {
        return sp_fail(error, SP_USAGE, "--image=%s: not a list of images", text);
    }
    sp_mount_list_free(&list);
    return 0;
}

/* Called in the submitting command, where a wrong text must stop it, and again on each node, where
 * nothing may fail. The same option twice is usual (a script's and the command line's): the last
 * one counts. */
static int take(int option, const char *text, int remote)
{
    struct sp_error error;
    if (text == NULL) {
        return -1;
    }
    if (remote) {
        if (option == OPTION_IMAGE) {
            image_asked = strcmp(text, option_none) != 0;
        }
        return 0;
    }
    if (option_check((enum option)option, text, &error) != 0) {
        report_error(&error);
        return -1;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return -1;
    }
    free(given[option]);
    given[option] = copy;
    return 0;
}
