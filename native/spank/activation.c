#include "activation.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_BYTES = 8 << 20, COMPLAINT_BYTES = 64 << 10, TIMEOUT_S = 60 };

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

static long milliseconds_left(const struct timespec *deadline)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (deadline->tv_sec - now.tv_sec) * 1000 + (deadline->tv_nsec - now.tv_nsec) / 1000000;
}

/* Reads to the end of a pipe; NULL with errno set when that does not come, or comes too late. */
static char *read_all(int descriptor, size_t *length)
{
    struct timespec deadline;
    size_t room = 0;
    char *text = NULL;
    (void)clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += TIMEOUT_S;
    *length = 0;
    for (;;) {
        struct pollfd waiting = {.fd = descriptor, .events = POLLIN};
        long left = milliseconds_left(&deadline);
        if (*length == room) {
            char *larger = room < ANSWER_BYTES ? realloc(text, room + 65536) : NULL;
            if (larger == NULL) {
                errno = E2BIG;
                break;
            }
            text = larger;
            room += 65536;
        }
        int ready = left > 0 ? poll(&waiting, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            errno = ready == 0 ? ETIMEDOUT : errno;
            break;
        }
        ssize_t count = read(descriptor, text + *length, room - *length);
        if (count == 0) {
            return text;
        }
        if (count > 0) {
            *length += (size_t)count;
        } else if (errno != EINTR) {
            break;
        }
    }
    free(text);
    return NULL;
}

static void pass_on(int descriptor, activation_listener *listener)
{
    char *text = malloc(COMPLAINT_BYTES + 1);
    char *rest = text;
    ssize_t count = text != NULL ? pread(descriptor, text, COMPLAINT_BYTES, 0) : 0;
    if (count > 0) {
        text[count] = '\0';
        for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
            if (*line != '\0') {
                listener(line);
            }
        }
    }
    free(text);
}

/* Starts the program with nothing as input, and two descriptors as output and error. */
static int start(char *const argv[], int output, int complaint, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t usual;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0) {
        return failure;
    }
    failure = posix_spawnattr_init(&attributes);
    if (failure != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return failure;
    }
    /* Slurm's commands block and ignore signals as they need it; a program expects the usual. */
    (void)sigemptyset(&none);
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGPIPE);
    (void)sigaddset(&usual, SIGINT);
    (void)sigaddset(&usual, SIGTERM);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &usual);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    failure = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    failure = failure ? failure : posix_spawn_file_actions_adddup2(&actions, output, 1);
    failure = failure ? failure : posix_spawn_file_actions_adddup2(&actions, complaint, 2);
    failure =
        failure ? failure : posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failure;
}

/* Waits for the child; whether it said yes is in its answer, so that its status is not needed. */
static void reap(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

static int converse(char *const argv[], activation_listener *listener,
                    struct activation *activation, struct sp_error *error)
{
    pid_t child = 0;
    int ends[2] = {-1, -1};
    int status = -1;
    int complaint = memfd_create("stackproof-complaint", MFD_CLOEXEC);
    if (complaint < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        (void)sp_fail(error, SP_NOT_PERMITTED, "cannot start `%s`: %s", argv[0], strerror(errno));
        goto close_all;
    }
    int failure = start(argv, ends[1], complaint, &child);
    if (failure != 0) {
        (void)sp_fail(error, SP_TOOL_MISSING, "cannot start `%s`: %s", argv[0], strerror(failure));
        (void)sp_hint(error, "install stackproof here, or name each mount point and no view: "
                             "--image=IMAGE:MOUNT --view=none");
        goto close_all;
    }
    (void)close(ends[1]);
    ends[1] = -1;
    activation->records = read_all(ends[0], &activation->length);
    if (activation->records == NULL) {
        failure = errno;
        (void)kill(child, SIGKILL);
        (void)sp_fail(error, SP_USAGE, "no answer of `%s`: %s", argv[0], strerror(failure));
    }
    reap(child);
    pass_on(complaint, listener);
    if (activation->records != NULL) {
        status = activation_parse(activation);
        if (status != 0) {
            (void)sp_fail(error, SP_USAGE,
                          "nothing was submitted: `%s activate` did not say what to mount",
                          argv[0]);
        }
    }
close_all:
    for (int end = 0; end < 2; end++) {
        if (ends[end] >= 0) {
            (void)close(ends[end]);
        }
    }
    if (complaint >= 0) {
        (void)close(complaint);
    }
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
