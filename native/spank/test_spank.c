/* Tests of the plug-in without a Slurm: this file has the few functions of Slurm that it calls.
 *
 *     test_spank             TAP, for `meson test`
 *     test_spank activate …  stands for the program that is asked: ANSWER says what it answers
 *     test_spank answer IMAGES [VIEWS]   what answer.c says here, `none` for no view;
 *                            3 where it would ask the program */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "activation.h"
#include "answer.h"
#include "arguments.h"
#include "names.h"
#include "options.h"
#include "pmi.h"
#include "step.h"
#include "submit.h"

static int tests;
static int failures;
static char said[65536];
static struct spank_option *options[OPTIONS];
static int option_count;
static char **job_environment;
static spank_err_t item_result = ESPANK_SUCCESS;

static void check(int holds, const char *what)
{
    tests++;
    failures += !holds;
    (void)printf("%s %d - %s\n", holds ? "ok" : "not ok", tests, what);
    if (!holds) {
        (void)printf("# said: %s\n", said);
    }
}

/* ------------------------------------------------------------------------------ what Slurm has */

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list values)
{
    size_t length = strlen(said);
    (void)vsnprintf(said + length, sizeof said - length, format, values);
    length = strlen(said);
    (void)snprintf(said + length, sizeof said - length, "; ");
}

void slurm_error(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
}

void slurm_info(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    (void)spank;
    options[option_count++ % OPTIONS] = option;
    return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    static gid_t groups[] = {4, 5};
    va_list targets;
    (void)spank;
    va_start(targets, item);
    if ((int)item == S_JOB_ENV) {
        *va_arg(targets, char ***) = job_environment;
    } else if ((int)item == S_JOB_UID) {
        *va_arg(targets, uid_t *) = getuid();
    } else if ((int)item == S_JOB_GID) {
        *va_arg(targets, gid_t *) = getgid();
    } else {
        *va_arg(targets, gid_t **) = groups;
        *va_arg(targets, int *) = 2;
    }
    va_end(targets);
    return (int)item == S_JOB_ENV ? ESPANK_SUCCESS : item_result;
}

spank_err_t spank_unsetenv(spank_t spank, const char *var)
{
    (void)spank;
    size_t length = strlen(var);
    for (char **variable = job_environment; *variable != NULL;) {
        if (strncmp(*variable, var, length) == 0 && (*variable)[length] == '=') {
            for (char **next = variable; *next != NULL; next++) {
                next[0] = next[1];
            }
        } else {
            variable++;
        }
    }
    return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *var, const char *val, int overwrite)
{
    (void)spank;
    return setenv(var, val, overwrite) == 0 ? ESPANK_SUCCESS : ESPANK_BAD_ARG;
}

/* -------------------------------------------------------------------------------------- tests */

static void test_arguments(void)
{
    char known[] = "stackproof=/opt/bin/stackproof";
    char unknown[] = "stackprof=/x";
    char empty[] = "stackproof=";
    char *good[] = {known};
    char *bad[] = {known, unknown};
    char *nothing[] = {empty};
    struct arguments arguments;
    struct sp_error error;
    check(arguments_read(0, NULL, &arguments, &error) == 0 && *arguments.program != '\0',
          "without a setting there is a program");
    check(arguments_read(1, good, &arguments, &error) == 0 &&
              strcmp(arguments.program, "/opt/bin/stackproof") == 0,
          "the program is the one that plugstack.conf names");
    check(arguments_read(2, bad, &arguments, &error) != 0 && error.reason == SP_USAGE,
          "an unknown setting is an error");
    check(arguments_read(1, nothing, &arguments, &error) != 0, "an empty setting is an error");
}

static int parse(struct activation *activation, const char *bytes, size_t length)
{
    memset(activation, 0, sizeof *activation);
    activation->records = malloc(length > 0 ? length : 1);
    if (activation->records == NULL) {
        abort();
    }
    memcpy(activation->records, bytes, length);
    activation->length = length;
    return activation_parse(activation);
}

#define ANSWER(text) text, sizeof(text) - 1
#define HEAD "stackproof-activate 1\0mounts /a:/m\0"

static void test_answers(void)
{
    struct activation got;
    check(parse(&got, ANSWER(HEAD "set A=b=c\0unset B\0set C=\0end\0")) == 0 && got.count == 3 &&
              strcmp(got.mounts, "/a:/m") == 0 && strcmp(got.changes[0].name, "A") == 0 &&
              strcmp(got.changes[0].value, "b=c") == 0 && got.changes[1].value == NULL &&
              strcmp(got.changes[1].name, "B") == 0 && *got.changes[2].value == '\0',
          "a whole answer is read");
    activation_free(&got);
    check(parse(&got, ANSWER("stackproof-activate 1\0mounts \0end\0")) == 0 && got.count == 0 &&
              *got.mounts == '\0',
          "an answer may be nothing");
    activation_free(&got);
    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = {
        {ANSWER("")},
        {ANSWER("stackproof-activate 1\0")},
        {ANSWER("stackproof-activate 2\0mounts /a:/m\0end\0")},
        {ANSWER("stackproof-activate 1\0end\0")},
        {ANSWER("stackproof-activate 1\0set A=b\0end\0")},
        {ANSWER(HEAD)},
        {ANSWER(HEAD "set A=b\0")},
        {ANSWER(HEAD "set A=b\0end")},
        {ANSWER(HEAD "end\0set A=b\0")},
        {ANSWER(HEAD "set A\0end\0")},
        {ANSWER(HEAD "set =b\0end\0")},
        {ANSWER(HEAD "unset \0end\0")},
        {ANSWER(HEAD "unset A=b\0end\0")},
        {ANSWER(HEAD "mounts /b:/m\0end\0")},
        {ANSWER(HEAD "\0end\0")},
    };
    for (size_t number = 0; number < sizeof bad / sizeof bad[0]; number++) {
        char what[64];
        (void)snprintf(what, sizeof what, "bad answer %zu is refused", number);
        check(parse(&got, bad[number].bytes, bad[number].length) != 0, what);
        activation_free(&got);
    }
}

/* Gives an option to the plug-in as Slurm does; -2 where it has registered none. */
static int give(enum option option, const char *text, int remote)
{
    return options[option] != NULL ? options[option]->cb((int)option, text, remote) : -2;
}

static void test_options(void)
{
    struct sp_error error;
    said[0] = '\0';
    check(options_register(NULL) == 0 && option_count == OPTIONS, "all options are registered");
    check(give(OPTION_IMAGE, "a,,b", 0) != 0 && strstr(said, "empty") != NULL,
          "a bad list is refused where it is written");
    check(give(OPTION_VIEW, "a,", 0) != 0, "a view may not be empty");
    check(option_check(OPTION_TRANSPORT, "\x01", &error) != 0, "names are printable");
    check(give(OPTION_IMAGE, NULL, 0) != 0, "an option has a text");
    check(give(OPTION_IMAGE, "none", 1) == 0 && !option_image_was_asked(),
          "none is no image on a node");
    check(give(OPTION_IMAGE, "a,,b", 1) == 0 && option_image_was_asked(),
          "nothing is refused on a node");
    check(option_given(OPTION_IMAGE) == NULL, "what a node hears is not given here");
}

static int submit_with(const char *answer, enum command command)
{
    static char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    struct arguments arguments = {.program = self};
    self[length > 0 ? length : 0] = '\0';
    said[0] = '\0';
    (void)setenv("ANSWER", answer, 1);
    return submit(command, &arguments);
}

static int is_set(const char *name, const char *value)
{
    const char *found = getenv(name);
    return value == NULL ? found == NULL : found != NULL && strcmp(found, value) == 0;
}

/* A process submits once, as srun does; so each of these is a process of its own. */
static void in_child(void (*run)(void))
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int before = failures;
        run();
        (void)fflush(stdout);
        _exit(failures - before);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        failures++;
        (void)printf("not ok - a test crashed\n");
    } else {
        failures += WEXITSTATUS(status);
    }
}

/* A file of which the program must be asked, as it is no image. */
static const char no_image[] = "/etc/passwd";

static void submit_image(void)
{
    (void)setenv("SRUN_STACKPROOF_IMAGE", "b", 1);
    (void)setenv(NAME_MOUNTED, "/c:/m", 1);
    check(give(OPTION_IMAGE, no_image, 0) == 0 && submit_with("good", COMMAND_SRUN) == 0 &&
              is_set(NAME_WIRE, "/a:/m") && is_set("VIEW", "x") &&
              is_set("SRUN_STACKPROOF_IMAGE", NULL),
          "the option wins over the variable and the session");
}

static void submit_session(void)
{
    (void)setenv(NAME_MOUNTED, "/c:/m", 1);
    check(submit_with("bad", COMMAND_SBATCH) == 0 && is_set(NAME_WIRE, "/c:/m") &&
              is_set("VIEW", NULL),
          "a session is carried on, and nobody is asked");
}

static void submit_none(void)
{
    (void)setenv(NAME_MOUNTED, "/c:/m", 1);
    check(give(OPTION_IMAGE, "none", 0) == 0 && submit_with("bad", COMMAND_SRUN) == 0 &&
              is_set(NAME_WIRE, ""),
          "none is sent as nothing");
}

static void submit_nothing(void)
{
    (void)setenv(NAME_WIRE, "/x:/y", 1);
    check(submit_with("bad", COMMAND_SRUN) == 0 && is_set(NAME_WIRE, NULL),
          "without an image nothing is sent, whatever the user has set");
}

static void submit_salloc(void)
{
    check(give(OPTION_IMAGE, no_image, 0) == 0 && submit_with("good", COMMAND_SALLOC) == 0 &&
              is_set(NAME_WIRE, NULL) && is_set("SRUN_STACKPROOF_IMAGE", "/a:/m") &&
              is_set("VIEW", NULL),
          "salloc leaves it to srun");
}

static void submit_refused(void)
{
    check(give(OPTION_IMAGE, no_image, 0) == 0 && submit_with("bad", COMMAND_SRUN) != 0 &&
              strstr(said, "because") != NULL && strstr(said, "submitted") == NULL &&
              is_set(NAME_WIRE, NULL),
          "what the program says is told, and nothing is sent");
}

static void submit_without_program(void)
{
    struct arguments arguments = {.program = "/nonesuch"};
    said[0] = '\0';
    check(give(OPTION_IMAGE, "a.squashfs:/m", 0) == 0 &&
              give(OPTION_TRANSPORT, "tcp", 0) == 0 && submit(COMMAND_SRUN, &arguments) != 0 &&
              strstr(said, "tool-missing") != NULL,
          "a program that is missing is told");
}

static void submit_missing_without_program(void)
{
    struct arguments arguments = {.program = "/nonesuch"};
    said[0] = '\0';
    check(give(OPTION_IMAGE, "a.squashfs:/m", 0) == 0 && submit(COMMAND_SRUN, &arguments) != 0 &&
              strstr(said, "image-missing") != NULL,
          "what is wrong is told, also without the program");
}

static void submit_whole_without_program(void)
{
    struct arguments arguments = {.program = "/nonesuch"};
    check(give(OPTION_IMAGE, "/a:/m,/b:/n", 0) == 0 && give(OPTION_VIEW, "none", 0) == 0 &&
              submit(COMMAND_SRUN, &arguments) == 0 && is_set(NAME_WIRE, "/a:/m,/b:/n"),
          "a list that is whole needs no program");
}

static void submit_components(void)
{
    check(give(OPTION_IMAGE, no_image, 0) == 0 && submit_with("good", COMMAND_SRUN) == 0 &&
              submit_with("bad", COMMAND_SRUN) == 0,
          "the components of a job may agree");
    check(give(OPTION_IMAGE, "b", 0) == 0 && submit_with("good", COMMAND_SRUN) != 0 &&
              strstr(said, "components") != NULL,
          "they may not differ");
}

static void submit_lonely_view(void)
{
    check(give(OPTION_VIEW, "v", 0) == 0 && submit_with("good", COMMAND_SRUN) != 0 &&
              strstr(said, "no image") != NULL,
          "a view needs an image");
}

static void submit_bad_variable(void)
{
    (void)setenv("SBATCH_STACKPROOF_IMAGE", "a,,b", 1);
    check(submit_with("good", COMMAND_SBATCH) != 0 &&
              strstr(said, "SBATCH_STACKPROOF_IMAGE") != NULL,
          "a bad variable is named");
}

static void submit_scrontab(void)
{
    check(give(OPTION_IMAGE, "a", 0) == 0 && submit_with("good", COMMAND_SCRONTAB) != 0,
          "scrontab takes no image");
}

/* Prepares a step of a job with one variable; returns what became of it. */
static enum step_state prepared(const char *variable, bool asked, struct step *step)
{
    char *copy = strdup(variable);
    char mine[] = NAME_MOUNTED "=/old:/m";
    char *environment[] = {mine, copy, NULL};
    job_environment = environment;
    step_prepare(step, NULL, asked);
    enum step_state state = step->state;
    check(*variable == '\0' || environment[0] == NULL, "the job keeps neither variable");
    step_release(step);
    free(copy);
    return state;
}

static void test_steps(void)
{
    static struct step step;
    check(prepared("", false, &step) == STEP_WITHOUT_IMAGES, "a job without an image has none");
    check(prepared("", true, &step) == STEP_FAILED, "an image that was lost on the way fails");
    check(prepared(NAME_WIRE "=", true, &step) == STEP_WITHOUT_IMAGES, "none is none");
    check(prepared(NAME_WIRE "=a:/m", false, &step) == STEP_FAILED && step.error.reason == SP_USAGE,
          "a relative image fails");
    check(prepared(NAME_WIRE "=/a", false, &step) == STEP_FAILED, "no mount point fails");
    check(prepared(NAME_WIRE "=,,", false, &step) == STEP_FAILED, "no list fails");
    check(prepared(NAME_WIRE "=/a:/etc", false, &step) == STEP_FAILED &&
              step.error.reason == SP_BAD_MOUNT_POINT,
          "a path of the system fails");
    item_result = ESPANK_BAD_ARG;
    check(prepared(NAME_WIRE "=/a:/user-environment", false, &step) == STEP_FAILED &&
              step.error.reason == SP_NOT_PERMITTED,
          "a job of nobody fails");
    item_result = ESPANK_SUCCESS;
}

static void test_families(void)
{
    static const struct {
        const char *family;
        const char *type;
        const char *wanted;
        bool alone;
    } rows[] = {
        {"mpich", "none", "pmi2", true},        {"mpich", "pmi2", "pmi2", false},
        {"mpich", "pmix", "pmi2", false},       {"intel-mpi", "openmpi", "pmi2", true},
        {"intel-mpi", "pmix", "pmi2", false},   {"openmpi", "pmi2", "pmix", true},
        {"openmpi", "pmix_v4", "pmix", false},  {"cray-mpich", "none", "cray_shasta", true},
        {"openmpi", "cray_shasta", "pmix", true},
    };
    for (size_t number = 0; number < sizeof rows / sizeof rows[0]; number++) {
        const char *wanted = pmi_wanted(rows[number].family);
        check(wanted != NULL && strcmp(wanted, rows[number].wanted) == 0 &&
                  pmi_leaves_alone(rows[number].family, rows[number].type) == rows[number].alone,
              rows[number].family);
    }
    check(pmi_wanted("other") == NULL && !pmi_leaves_alone("other", "none"), "another family");
}

static int answer(int count, char *words[])
{
    static const char good[] = "stackproof-activate 1\0mounts /a:/m\0set VIEW=x\0end\0";
    const char *kind = getenv("ANSWER");
    if (kind != NULL && strcmp(kind, "good") == 0) {
        return fwrite(good, 1, sizeof good - 1, stdout) == sizeof good - 1 ? 0 : 1;
    }
    (void)fprintf(stderr, "error: no, because\n\nhint: %s of %d words\n", words[1], count);
    return 2;
}

static void hear(const char *line)
{
    (void)fprintf(stderr, "%s\n", line);
}

static int show_answer(int count, char *words[])
{
    struct activation activation;
    struct sp_error error;
    bool no_view = count > 3 && strcmp(words[3], option_none) == 0;
    const struct activation_request request = {
        .images = words[2],
        .view = count > 3 && !no_view ? words[3] : NULL,
        .no_view = no_view,
    };
    if (answer_make(&request, environ, hear, &activation, &error) != ANSWER_WHOLE) {
        (void)fprintf(stderr, "%s [%s]\n", error.message, sp_reason_name(error.reason));
        return 3;
    }
    (void)printf("mounts %s%c", activation.mounts, '\0');
    for (size_t number = 0; number < activation.count; number++) {
        const struct activation_change *change = &activation.changes[number];
        (void)printf("%s %s%s%s%c", change->value != NULL ? "set" : "unset", change->name,
                     change->value != NULL ? "=" : "", change->value != NULL ? change->value : "",
                     '\0');
    }
    activation_free(&activation);
    return 0;
}

int main(int count, char *words[])
{
    if (count > 2 && strcmp(words[1], "answer") == 0) {
        return show_answer(count, words);
    }
    if (count > 1 && strcmp(words[1], "activate") == 0) {
        return answer(count, words);
    }
    test_arguments();
    test_answers();
    test_options();
    test_families();
    static void (*const submissions[])(void) = {
        submit_image,
        submit_session,
        submit_none,
        submit_nothing,
        submit_salloc,
        submit_refused,
        submit_without_program,
        submit_missing_without_program,
        submit_whole_without_program,
        submit_components,
        submit_lonely_view,
        submit_bad_variable,
        submit_scrontab,
    };
    for (size_t number = 0; number < sizeof submissions / sizeof submissions[0]; number++) {
        in_child(submissions[number]);
        tests += submissions[number] == submit_components ? 2 : 1;
    }
    test_steps();
    (void)printf("1..%d\n", tests);
    return failures != 0;
}
