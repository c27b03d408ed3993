#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "activation.h"
#include "answer.h"
#include "names.h"
#include "options.h"
#include "pmi.h"
#include "report.h"

static const char *const suffixes[OPTIONS] = {
    [OPTION_IMAGE] = "STACKPROOF_IMAGE",
    [OPTION_VIEW] = "STACKPROOF_VIEW",
    [OPTION_TRANSPORT] = "STACKPROOF_TRANSPORT",
};
static const char *const prefixes[] = {
    [COMMAND_SRUN] = "SRUN",
    [COMMAND_SBATCH] = "SBATCH",
    [COMMAND_SALLOC] = "SALLOC",
    [COMMAND_SCRONTAB] = "SCRON",
};

/* What the user wants, from the command line, from variables, from what is mounted around. */
struct wish {
    const char *image; /* NULL: none; `none` has become NULL and `off` */
    const char *view;
    const char *transport;
    bool off;       /* the user said `none` */
    bool inherited; /* `image` is what is mounted around the command */
};

enum command command_of_allocator(void)
{
    /* The file and not the first word of the command line, which may be anything. Its beginning,
     * since sites put scripts in front and call it `sbatch.real`. */
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (strncmp(name, "salloc", strlen("salloc")) == 0) {
        return COMMAND_SALLOC;
    }
    return strncmp(name, "scrontab", strlen("scrontab")) == 0 ? COMMAND_SCRONTAB : COMMAND_SBATCH;
}

static void variable_name(enum command command, enum option option, char *name, size_t room)
{
    (void)snprintf(name, room, "%s_%s", prefixes[command], suffixes[option]);
}

/* Returns the value of an option's variable, NULL where it is unset or empty. */
static const char *variable(enum command command, enum option option)
{
    char name[64];
    variable_name(command, option, name, sizeof name);
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static int set_variable(enum command command, enum option option, const char *value)
{
    char name[64];
    variable_name(command, option, name, sizeof name);
    return value != NULL ? setenv(name, value, 1) : unsetenv(name);
}

/* Returns an option's text and whether it comes from the command line; checks the variable's. */
static int choose(enum command command, enum option option, const char **text,
                  struct sp_error *error)
{
    *text = option_given(option);
    if (*text != NULL) {
        return 0;
    }
    *text = variable(command, option);
    if (*text == NULL || option_check(option, *text, error) == 0) {
        return 0;
    }
    (void)sp_hint(error, "it comes from the variable %s_%s", prefixes[command], suffixes[option]);
    return -1;
}

static int read_wish(enum command command, struct wish *wish, struct sp_error *error)
{
    memset(wish, 0, sizeof *wish);
    if (choose(command, OPTION_IMAGE, &wish->image, error) != 0 ||
        choose(command, OPTION_TRANSPORT, &wish->transport, error) != 0) {
        return -1;
    }
    wish->view = option_given(OPTION_VIEW);
    if (wish->view == NULL && option_given(OPTION_IMAGE) == NULL && wish->image != NULL &&
        choose(command, OPTION_VIEW, &wish->view, error) != 0) {
        return -1; /* a variable's view belongs to a variable's image, and to no other */
    }
    if (wish->image != NULL && strcmp(wish->image, option_none) == 0) {
        wish->image = NULL;
        wish->off = true;
    } else if (wish->image == NULL) {
        const char *around = getenv(NAME_MOUNTED);
        wish->inherited = around != NULL && *around != '\0';
        wish->image = wish->inherited ? around : NULL;
    }
    if (wish->image == NULL && (wish->view != NULL || wish->transport != NULL)) {
        enum option option = wish->view != NULL ? OPTION_VIEW : OPTION_TRANSPORT;
        (void)sp_fail(error, SP_USAGE, "--%s=%s: there is no image", option_name(option),
                      wish->view != NULL ? wish->view : wish->transport);
        return sp_hint(error, "name one: --image=IMAGE[:MOUNT]");
    }
    return 0;
}

/* Returns whether the images need not be asked: nothing of them is to be applied here. */
static bool is_complete(const struct wish *wish)
{
    return wish->inherited && wish->view == NULL && wish->transport == NULL;
}

static int apply(const struct activation *activation, struct sp_error *error)
{
    for (size_t number = 0; number < activation->count; number++) {
        const struct activation_change *change = &activation->changes[number];
        int result =
            change->value != NULL ? setenv(change->name, change->value, 1) : unsetenv(change->name);
        if (result != 0) {
            return sp_fail(error, SP_INVALID_VALUE, "cannot set the variable `%s`", change->name);
        }
    }
    return 0;
}

/* Puts the mount list where the nodes look for it. */
static int send(const char *mounts, struct sp_error *error)
{
    if (setenv(NAME_WIRE, mounts, 1) != 0) {
        return sp_fail(error, SP_INVALID_VALUE, "cannot set the variable `" NAME_WIRE "`");
    }
    return 0;
}

/* The shell of salloc is on this machine, where nothing is mounted. So the images and their views
 * wait for the steps: they become the defaults of each srun. Images of a session around need not:
 * srun finds them as salloc did. */
static int leave_to_srun(const struct wish *wish, const char *mounts, struct sp_error *error)
{
    bool has_own = !wish->inherited || wish->view != NULL;
    const char *image = wish->off ? option_none : mounts;
    if (set_variable(COMMAND_SRUN, OPTION_IMAGE, has_own ? image : NULL) != 0 ||
        set_variable(COMMAND_SRUN, OPTION_VIEW, wish->view) != 0 ||
        set_variable(COMMAND_SRUN, OPTION_TRANSPORT, wish->transport) != 0) {
        return sp_fail(error, SP_INVALID_VALUE, "cannot set the variables for srun");
    }
    return 0;
}

/* Variables that stood around the job must not get the better of what the job has. */
static void forget_defaults_of_srun(void)
{
    for (int option = 0; option < OPTIONS; option++) {
        (void)set_variable(COMMAND_SRUN, (enum option)option, NULL);
    }
}

/* Finds out what the images stand for: here if that can be, else from the program. */
static int find_out(const struct arguments *arguments, const struct activation_request *request,
                    struct activation *activation, struct sp_error *error)
{
    struct sp_error why;
    enum answer_end end = answer_make(request, environ, report_line, activation, &why);
    if (end != ANSWER_ASK) {
        *error = why;
        return end == ANSWER_WHOLE ? 0 : -1;
    }
    int result = activation_ask(arguments->program, request, report_line, activation, error);
    if (result != 0 && error->reason == SP_TOOL_MISSING && request->transport == NULL) {
        if (why.reason == SP_IMAGE_MISSING) { /* a label, perhaps, which the program alone reads */
            (void)sp_hint(&why, "no such file, and labels need stackproof: %s", error->message);
        }
        *error = why;
    }
    return result;
}

static int carry_out(enum command command, const struct wish *wish,
                     const struct arguments *arguments, struct sp_error *error)
{
    struct activation activation = {.records = NULL};
    bool no_view = wish->view != NULL && strcmp(wish->view, option_none) == 0;
    struct activation_request request = {
        .images = wish->off ? option_none : wish->image,
        .view = no_view ? NULL : wish->view,
        .transport = wish->transport,
        .no_view = no_view || (wish->inherited && wish->view == NULL),
        .keep = wish->inherited && wish->view == NULL,
    };
    const char *mounts = wish->off ? "" : wish->image;
    int result = 0;
    bool ask = wish->off ? getenv(NAME_UNDO) != NULL : !is_complete(wish);
    if (ask) {
        result = find_out(arguments, &request, &activation, error);
        mounts = result == 0 ? activation.mounts : wish->image;
    }
    if (result == 0 && command == COMMAND_SALLOC) {
        result = leave_to_srun(wish, mounts, error);
    } else if (result == 0) {
        if (command == COMMAND_SRUN && !wish->off) {
            pmi_choose(mounts);
        }
        result = apply(&activation, error);
        result = result == 0 ? send(mounts, error) : result;
        forget_defaults_of_srun();
    }
    activation_free(&activation);
    return result;
}

/* A heterogeneous job has one environment, so it has one image list. */
static int check_component(bool *is_again, struct sp_error *error)
{
    static char *first[OPTIONS];
    static bool called;
    *is_again = called;
    for (int option = 0; option < OPTIONS; option++) {
        const char *now = option_given((enum option)option);
        if (!called) {
            first[option] = now != NULL ? strdup(now) : NULL;
        } else if (now != NULL && (first[option] == NULL || strcmp(first[option], now) != 0)) {
            (void)sp_fail(error, SP_USAGE, "--%s=%s: the components of a job differ in it",
                          option_name((enum option)option), now);
            return sp_hint(error, "give the option to the first component; it is for all of them");
        }
    }
    called = true;
    return 0;
}

int submit(enum command command, const struct arguments *arguments)
{
    struct sp_error error;
    struct wish wish;
    bool is_again = false;
    int result = check_component(&is_again, &error);
    if (result == 0 && is_again) {
        return 0;
    }
    if (result == 0) {
        (void)unsetenv(NAME_WIRE);
        (void)unsetenv(NAME_LABELS);
        result = read_wish(command, &wish, &error);
    }
    if (result == 0 && command == COMMAND_SCRONTAB && (wish.image != NULL || wish.off)) {
        result = sp_fail(&error, SP_USAGE, "scrontab cannot give images to jobs");
        (void)sp_hint(&error, "let the entry submit a script by sbatch");
    }
    if (result == 0 && (wish.image != NULL || wish.off)) {
        result = carry_out(command, &wish, arguments, &error);
    }
    if (result != 0) {
        report_error(&error);
    }
    return result;
}
