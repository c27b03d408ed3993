#include "activation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

/* What shells and env(1) say of a program that they were to start. */
enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

enum { ANSWER_BYTES = 8 << 20 };

static const char protocol[] = "stackproof-activate 1";
static const char word_mounts[] = "mounts ";
static const char word_set[] = "set ";
static const char word_unset[] = "unset ";
static const char word_end[] = "end";

/* Returns what is behind `word` in a record that begins with it, or NULL. */
static char *behind(char *record, const char *word)
{
    size_t length = strlen(word);
    return strncmp(record, word, length) == 0 ? record + length : NULL;
}

/* Reads `set NAME=VALUE` or `unset NAME`. */
static int read_change(char *record, struct activation_change *change)
{
    char *name = behind(record, word_set);
    if (name != NULL) {
        char *equals = strchr(name, '=');
        if (equals == NULL || equals == name) {
            return -1;
        }
        *equals = '\0';
        change->name = name;
        change->value = equals + 1;
        return 0;
    }
    name = behind(record, word_unset);
    if (name == NULL || *name == '\0' || strchr(name, '=') != NULL) {
        return -1;
    }
    change->name = name;
    change->value = NULL;
    return 0;
}

static size_t count_records(const char *records, size_t length)
{
    size_t count = 0;
    for (size_t index = 0; index < length; index++) {
        count += records[index] == '\0';
    }
    return count;
}

int activation_parse(struct activation *activation)
{
    char *record = activation->records;
    const char *end = record + activation->length;
    if (activation->length == 0 || end[-1] != '\0' || strcmp(record, protocol) != 0) {
        return -1;
    }
    size_t count = count_records(record, activation->length - 1) + 1;
    activation->changes = calloc(count, sizeof *activation->changes);
    if (activation->changes == NULL) {
        return -1;
    }
    char *next = record + strlen(record) + 1;
    for (size_t number = 1; number < count; number++) {
        record = next;
        next += strlen(record) + 1;
        if (number == 1) {
            activation->mounts = behind(record, word_mounts);
        } else if (strcmp(record, word_end) == 0) {
            return activation->mounts != NULL && next == end ? 0 : -1;
        } else if (read_change(record, &activation->changes[activation->count++]) != 0) {
            return -1;
        }
    }
    return -1;
}

void activation_free(struct activation *activation)
{
    free(activation->records);
    free(activation->changes);
    memset(activation, 0, sizeof *activation);
}

/* Returns whether an error was among the lines. */
static bool pass_on(char *text, activation_listener *listener)
{
    bool has_error = false;
    char *rest = text;
    while (rest != NULL) {
        const char *line = strsep(&rest, "\n");
        if (*line != '\0') {
            listener(line);
            has_error = has_error || strncmp(line, "error: ", strlen("error: ")) == 0;
        }
    }
    return has_error;
}

static int converse(char *const argv[], activation_listener *listener,
                    struct activation *activation, struct sp_error *error)
{
    struct child child;
    int started = 0;
    int status = child_run(argv, environ, ANSWER_BYTES, &child, &started);
    if (!started) {
        (void)sp_fail(error, SP_TOOL_MISSING, "cannot start `%s`: %s", argv[0],
                      strerror(child.fault));
        (void)sp_hint(error, "install stackproof here, or name each mount point and no view: "
                             "--image=IMAGE:MOUNT --view=none");
    } else if (status != 0) {
        (void)sp_fail(error, SP_USAGE, "no answer of `%s`: %s", argv[0], strerror(child.fault));
    }
    bool has_said_why = pass_on(child.complaint, listener);
    if (status == 0) {
        activation->records = child.output;
        activation->length = child.length;
        child.output = NULL;
        status = activation_parse(activation);
        int code = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 0;
        if (status != 0 && has_said_why) {
            (void)sp_fail(error, SP_USAGE, "%s", ""); /* nothing is left to say */
        } else if (status != 0 && (code == NOT_EXECUTABLE || code == NOT_FOUND)) {
            (void)sp_fail(error, SP_TOOL_MISSING, "`%s` cannot be executed by you", argv[0]);
        } else if (status != 0) {
            (void)sp_fail(error, SP_USAGE,
                          "nothing was submitted: `%s activate` did not say what to mount",
                          argv[0]);
        }
    }
    child_free(&child);
    return status;
}

static char *joined(const char *first, const char *second)
{
    char *text = NULL;
    return asprintf(&text, "%s%s", first, second) < 0 ? NULL : text;
}

int activation_ask(const char *program, const struct activation_request *request,
                   activation_listener *listener, struct activation *activation,
                   struct sp_error *error)
{
    char program_word[] = "activate";
    char null_word[] = "--null";
    char no_view_word[] = "--no-view";
    char keep_word[] = "--keep";
    char end_word[] = "--";
    char *copies[4] = {strdup(program), strdup(request->images), NULL, NULL};
    char *argv[10] = {copies[0], program_word, null_word};
    size_t count = 3;
    int status = -1;
    memset(activation, 0, sizeof *activation);
    if (copies[0] == NULL || copies[1] == NULL ||
        (request->view != NULL && !(copies[2] = joined("--view=", request->view))) ||
        (request->transport != NULL && !(copies[3] = joined("--transport=", request->transport)))) {
        (void)sp_fail(error, SP_NOT_PERMITTED, "no memory");
        goto free_all;
    }
    if (request->no_view) {
        argv[count++] = no_view_word;
    }
    if (request->keep) {
        argv[count++] = keep_word;
    }
    if (copies[2] != NULL) {
        argv[count++] = copies[2];
    }
    if (copies[3] != NULL) {
        argv[count++] = copies[3];
    }
    argv[count++] = end_word;
    argv[count] = copies[1];
    status = converse(argv, listener, activation, error);
free_all:
    for (size_t number = 0; number < sizeof copies / sizeof copies[0]; number++) {
        free(copies[number]);
    }
    if (status != 0) {
        activation_free(activation);
    }
    return status;
}
