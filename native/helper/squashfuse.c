#include "squashfuse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "kernel.h"
#include "text.h"

enum { CANNOT_START = 127, STACK_BYTES = 128 * 1024 };

static bool is_program(const char *path)
{
    struct stat state;
    return stat(path, &state) == 0 && S_ISREG(state.st_mode) && access(path, X_OK) == 0;
}

static bool find_in(const char *folders, const char *name, char *path, size_t room)
{
    while (*folders != '\0') {
        size_t length = strcspn(folders, ":");
        /* An empty or relative entry is no place to take a program from that serves in background.
         */
        if (folders[0] == '/' && length < room &&
            (size_t)snprintf(path, room, "%.*s/%s", (int)length, folders, name) < room &&
            is_program(path)) {
            return true;
        }
        folders += length;
        folders += *folders == ':' ? 1 : 0;
    }
    return false;
}

bool squashfuse_find(char *path, size_t room)
{
    const char *searched = getenv("PATH");
    const char *const names[] = {"squashfuse_ll", "squashfuse"};
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        if ((searched != NULL && find_in(searched, names[index], path, room)) ||
            find_in("/usr/local/bin:/usr/bin", names[index], path, room)) {
            return true;
        }
    }
    return false;
}

/* The same, one by one. */
static void close_each(const int *kept, size_t count)
{
    DIR *stream = opendir("/proc/self/fd");
    if (stream == NULL) {
        _exit(CANNOT_START);
    }
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);
        bool keep = descriptor <= STDERR_FILENO || descriptor == dirfd(stream);
        for (size_t index = 0; index < count; index++) {
            keep = keep || descriptor == kept[index];
        }
        if (!keep) {
            (void)close(descriptor);
        }
    }
    (void)closedir(stream);
}

static int compare_descriptors(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* Closes everything but some descriptors, which are put in order, and the standard ones. */
static void close_others(int *kept, size_t count)
{
    unsigned next = STDERR_FILENO + 1;
    qsort(kept, count, sizeof kept[0], compare_descriptors);
    for (size_t index = 0; index <= count; index++) {
        unsigned stop = index < count ? (unsigned)kept[index] : UINT_MAX;
        if (next < stop && sp_close_range(next, stop - 1) != 0) {
            close_each(kept, count); /* Linux before 5.9 */
            return;
        }
        next = stop + 1;
    }
}

/* Gives a descriptor the number of a standard one. */
static bool put(int descriptor, int number)
{
    int now = dup2(descriptor, number);
    return now == number;
}

/* What a program that serves is given. */
struct service {
    const char *program;
    int image;
    int fuse;
    int complaints;
    int ends[2]; /* it waits at the first one */
};

static _Noreturn void serve(const struct service *service)
{
    char archive[64];
    char device[64];
    char byte = 0;
    const char *program = service->program;
    int image = service->image;
    int fuse = service->fuse;
    int go = service->ends[0];
    int kept[] = {go, image, fuse};
    (void)close(service->ends[1]);
    char path[] = "PATH=/usr/bin:/bin";
    char *const environment[] = {path, NULL};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (chdir("/") != 0 || nothing < 0 || !put(nothing, STDIN_FILENO) ||
        !put(nothing, STDOUT_FILENO) || !put(service->complaints, STDERR_FILENO)) {
        _exit(CANNOT_START);
    }
    close_others(kept, sizeof kept / sizeof kept[0]);
    sp_text_numbered(archive, sizeof archive, "/proc/self/fd/", (unsigned long)image);
    sp_text_numbered(device, sizeof device, "/dev/fd/", (unsigned long)fuse);
    if (confine(program, image) != 0) { /* now: the caller mounts meanwhile */
        (void)dprintf(STDERR_FILENO, "cannot confine squashfuse: %s\n", strerror(errno));
        _exit(CANNOT_START);
    }
    /* Nothing comes when the caller died first. `recv` is not permitted any more. */
    if (read(go, &byte, 1) != 1 || fcntl(image, F_SETFD, 0) != 0 || fcntl(fuse, F_SETFD, 0) != 0) {
        _exit(CANNOT_START);
    }
    (void)execle(program, program, "-f", archive, device, (char *)NULL, environment);
    _exit(CANNOT_START);
}

/* The starter: its child, the program, is nobody's as soon as it ends. It runs in the memory of the
 * caller, who waits meanwhile: so that memory is copied once. */
static int start_service(void *context)
{
    (void)setsid();
    pid_t server = fork();
    if (server == 0) {
        serve(context);
    }
    return server < 0 ? CANNOT_START : 0;
}

/* Waits for a child that has started another one and ended. */
static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno == ECHILD) {
            return 0; /* the caller ignores SIGCHLD, and the kernel took it away */
        }
        if (errno != EINTR) {
            return -1;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

int squashfuse_start(const char *program, int image, int fuse, int complaints,
                     struct squashfuse *started)
{
    static _Alignas(16) char stack[STACK_BYTES];
    struct service service = {
        .program = program, .image = image, .fuse = fuse, .complaints = complaints};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, service.ends) != 0) {
        return -1;
    }
    pid_t child =
        clone(start_service, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &service);
    int fault = errno;
    (void)close(service.ends[0]);
    if (child < 0) {
        (void)close(service.ends[1]);
        errno = fault;
        return -1;
    }
    *started = (struct squashfuse){.start = service.ends[1], .starter = child};
    return 0;
}

int squashfuse_go(struct squashfuse *started)
{
    /* A socket, because a write to a pipe whose reader died would end this process. */
    (void)send(started->start, "g", 1, MSG_NOSIGNAL);
    squashfuse_release(started);
    return wait_for(started->starter);
}

void squashfuse_release(struct squashfuse *started)
{
    if (started->start >= 0) {
        (void)close(started->start);
    }
    started->start = -1;
}
