#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMPLAINT_BYTES = 64 << 10, TIMEOUT_S = 60 };

static long milliseconds_left(const struct timespec *deadline)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (deadline->tv_sec - now.tv_sec) * 1000 + (deadline->tv_nsec - now.tv_nsec) / 1000000;
}

/* Reads to the end of a pipe; NULL with errno set when that does not come, or comes too late. */
static char *read_all(int descriptor, size_t limit, size_t *length)
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
            char *larger = realloc(text, room + 65536);
            if (larger == NULL) {
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
            if (*length > limit) {
                errno = E2BIG;
                break;
            }
        } else if (errno != EINTR) {
            break;
        }
    }
    free(text);
    return NULL;
}

/* Returns the beginning of what was written to a file in memory. */
static char *beginning(int descriptor)
{
    char *text = malloc(COMPLAINT_BYTES + 1);
    ssize_t count = text != NULL ? pread(descriptor, text, COMPLAINT_BYTES, 0) : 0;
    if (text != NULL) {
        text[count > 0 ? count : 0] = '\0';
    }
    return text;
}

/* Starts the program with nothing as input, and two descriptors as output and error. */
static int start(char *const argv[], char *const environment[], int output, int complaint,
                 pid_t *child)
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
        failure ? failure : posix_spawnp(child, argv[0], &actions, &attributes, argv, environment);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failure;
}

static int reap(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}


int child_run(char *const argv[], char *const environment[], size_t limit, struct child *child,
              int *started)
{
    pid_t process = 0;
    int ends[2] = {-1, -1};
    int complaint = memfd_create("stackproof-complaint", MFD_CLOEXEC);
    *child = (struct child){.output = NULL};
    *started = 0;
    if (complaint < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        child->fault = errno;
        goto close_all;
    }
    child->fault = start(argv, environment, ends[1], complaint, &process);
    if (child->fault != 0) {
        goto close_all;
    }
    *started = 1;
    (void)close(ends[1]);
    ends[1] = -1;
    child->output = read_all(ends[0], limit, &child->length);
    if (child->output == NULL) {
        child->fault = errno;
        (void)kill(process, SIGKILL);
    }
    child->status = reap(process);
    child->complaint = beginning(complaint);
close_all:
    for (int end = 0; end < 2; end++) {
        if (ends[end] >= 0) {
            (void)close(ends[end]);
        }
    }
    if (complaint >= 0) {
        (void)close(complaint);
    }
    return child->fault == 0 ? 0 : -1;
}

void child_free(struct child *child)
{
    free(child->output);
    free(child->complaint);
    *child = (struct child){.output = NULL};
}
