/* Ranks of a node that want the same mounts meet, by names of sockets: no file, no process waits.
 *
 * With a user namespace for each rank the kernel would not let one rank copy from the memory of
 * another (process_vm_readv(2) asks for the rights of ptrace(2), which end where a user namespace
 * does). So the first rank makes the namespaces, and the others enter them.
 *
 * Names of abstract sockets (unix(7)) last as long as a process holds them. One name is the lock,
 * held while a process mounts or joins. Every process in the namespaces holds one of a row of
 * names, which its program inherits; who connects to it learns the process (SO_PEERCRED).
 */
#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { MEMBERS = 64, WAITING = 4096, HIGH = 500, TRIES = 2000, PAUSE_NS = 1000000 };
enum { LOCK = MEMBERS };

static uint64_t key;

static void add_to_key(const char *text)
{
    /* FNV-1a, 64 bits */
    do {
        key = (key ^ (unsigned char)*text) * 0x100000001b3U;
    } while (*text++ != '\0');
}

static void make_key(const char *what)
{
    key = 0xcbf29ce484222325U;
    add_to_key(text_of((unsigned long)call(SYS_geteuid, 0, 0, 0, 0)));
    add_to_key(text_of((unsigned long)call(SYS_getegid, 0, 0, 0, 0)));
    add_to_key(target_of("/proc/self/ns/user"));
    add_to_key(target_of("/proc/self/ns/mnt"));
    add_to_key(target_of("/proc/self/root"));
    add_to_key(what);
}

static long socket_called(struct sockaddr_un *address, unsigned number, socklen_t *size)
{
    const char *texts[] = {"stackproof-pack-", NULL, "-", NULL};
    char digits[17];
    for (int i = 0; i < 16; i++) {
        digits[i] = "0123456789abcdef"[(key >> (4 * i)) & 15];
    }
    digits[16] = '\0';
    texts[1] = digits;
    texts[3] = text_of(number);
    address->sun_family = AF_UNIX;
    address->sun_path[0] = '\0';
    size_t place = 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (const char *at = texts[i]; *at != '\0'; at++) {
            address->sun_path[place++] = *at;
        }
    }
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + place);
    return call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
}

/* Hold a name; -1 where another process does. */
static long hold(unsigned number)
{
    struct sockaddr_un address;
    socklen_t size;
    long file = socket_called(&address, number, &size);
    if (file >= 0 && call(SYS_bind, file, (long)&address, size, 0) == 0 &&
        call(SYS_listen, file, WAITING, 0, 0) == 0) {
        return file;
    }
    call(SYS_close, file, 0, 0, 0);
    return -1;
}

/* Connect to who holds a name, and give that process; -1 for the file where nobody does. */
static long reach(unsigned number, struct ucred *other)
{
    struct sockaddr_un address;
    socklen_t size;
    long file = socket_called(&address, number, &size);
    socklen_t bytes = sizeof *other;
    call(SYS_fcntl, file, F_SETFL, O_NONBLOCK, 0);
    if (file >= 0 && call(SYS_connect, file, (long)&address, size, 0) == 0 &&
        call_with_five(SYS_getsockopt, file, SOL_SOCKET, SO_PEERCRED, (long)other, (long)&bytes) ==
            0) {
        call(SYS_fcntl, file, F_SETFL, 0, 0);
        return file;
    }
    call(SYS_close, file, 0, 0, 0);
    return -1;
}

/* Take the lock; -1 where somebody else has its name, or holds it for longer than a mount takes. */
static long lock(void)
{
    uid_t user = (uid_t)call(SYS_geteuid, 0, 0, 0, 0);
    for (int i = 0; i < TRIES; i++) {
        long file = hold(LOCK);
        if (file >= 0) {
            return file;
        }
        struct ucred other;
        long holder = reach(LOCK, &other);
        if (holder >= 0 && other.uid != user) {
            call(SYS_close, holder, 0, 0, 0);
            return -1;
        }
        if (holder >= 0) {
            char nothing;
            call(SYS_read, holder, (long)&nothing, 1, 0); /* until the lock is let go */
            call(SYS_close, holder, 0, 0, 0);
        } else {
            struct timespec pause = {.tv_nsec = PAUSE_NS};
            call(SYS_nanosleep, (long)&pause, 0, 0, 0);
        }
    }
    return -1;
}

/* Enter the namespace of a process that holds one of the names; its number, NULL for none. */
static const char *join(void)
{
    uid_t user = (uid_t)call(SYS_geteuid, 0, 0, 0, 0);
    for (unsigned number = 0; number < MEMBERS; number++) {
        struct ucred other;
        long file = reach(number, &other);
        if (file < 0) {
            continue;
        }
        call(SYS_close, file, 0, 0, 0);
        if (other.uid != user || other.pid <= 0) {
            continue;
        }
        char *pid = text_of((unsigned long)other.pid);
        if (is_in_place(joined("/proc/", pid, "/root")) && enter(pid)) {
            return pid;
        }
    }
    return NULL;
}

/* Hold the first free name as long as this process and its program live. */
static void become_member(void)
{
    for (unsigned number = 0; number < MEMBERS; number++) {
        long file = hold(number);
        if (file >= 0) {
            /* Where no program looks: some count on the first descriptors. */
            if (call(SYS_fcntl, file, F_DUPFD, HIGH, 0) >= 0) {
                call(SYS_close, file, 0, 0, 0);
            } else {
                call(SYS_fcntl, file, F_SETFD, 0, 0);
            }
            return;
        }
    }
}

const char *meet(const char *what)
{
    if (is_in_place("")) {
        return "already there";
    }
    make_key(what);
    remember_folder();
    long held = lock();
    const char *pid = held >= 0 ? join() : NULL;
    if (pid != NULL && !is_in_place("")) {
        pid = NULL; /* its squashfuse has ended */
    }
    if (pid == NULL) {
        put_in_place();
    }
    if (held >= 0) {
        become_member();
        call(SYS_close, held, 0, 0, 0);
    }
    return_to_folder();
    return pid == NULL ? "made a mount namespace"
                       : joined("joined the mount namespace of process ", pid, "");
}
