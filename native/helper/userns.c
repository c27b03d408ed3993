#include "userns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mount.h"
#include "text.h"

/* As in mount/without_mount.py of the Python package; shorter, since a hint is bounded. */
#define WITHOUT_A_MOUNT \
    "; without a mount: `stackproof pack IMAGE -o DIR`, or `stackproof install IMAGE --to DIR`"

static int no_user_namespaces(struct sp_error *error, int fault)
{
    (void)sp_fail(error, SP_NO_USER_NAMESPACES,
                  "this machine does not let you make a user namespace: %s", strerror(fault));
    return sp_hint(error, "the administrator may allow them: sysctl user.max_user_namespaces, "
                          "kernel.unprivileged_userns_clone, "
                          "kernel.apparmor_restrict_unprivileged_userns" WITHOUT_A_MOUNT);
}

static int write_line(const char *path, const char *line)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    size_t length = strlen(line);
    ssize_t written = write(file, line, length);
    int fault = errno;
    (void)close(file);
    errno = fault;
    return written == (ssize_t)length ? 0 : -1;
}

static int enter_user_namespace(const struct rights *rights, struct sp_error *error)
{
    char users[64];
    char groups[64];
    unsigned long user = rights->user;
    unsigned long group = rights->group;
    (void)snprintf(users, sizeof users, "%lu %lu 1", user, user);
    (void)snprintf(groups, sizeof groups, "%lu %lu 1", group, group);
    /* A program that was setuid is not dumpable, and /proc/self/uid_map then belongs to root. There
     * is nothing left to protect: all rights were given back. */
    if (prctl(PR_SET_DUMPABLE, 1UL, 0UL, 0UL, 0UL) != 0 || unshare(CLONE_NEWUSER) != 0 ||
        write_line("/proc/self/setgroups", "deny") != 0 ||
        write_line("/proc/self/uid_map", users) != 0 ||
        write_line("/proc/self/gid_map", groups) != 0) {
        return no_user_namespaces(error, errno);
    }
    return 0;
}

static int no_fuse(struct sp_error *error)
{
    int fault = errno;
    (void)sp_fail(error, SP_NO_FUSE, "cannot open /dev/fuse: %s", strerror(fault));
    if (fault == ENOENT || fault == ENODEV || fault == ENXIO) {
        return sp_hint(error, "let the administrator load the module `fuse`" WITHOUT_A_MOUNT);
    }
    return sp_hint(error, "let the administrator make it readable and writable for all "
                          "(0666)" WITHOUT_A_MOUNT);
}

static int start_server(const char *program, const struct sp_image *image, struct server *server,
                        struct sp_error *error)
{
    server->fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (server->fuse < 0) {
        return no_fuse(error);
    }
    server->complaints = memfd_create("squashfuse", MFD_CLOEXEC);
    if (server->complaints < 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot start squashfuse: %s", strerror(errno));
    }
    if (squashfuse_start(program, image->descriptor, server->fuse, server->complaints,
                         &server->program) != 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot start squashfuse: %s", strerror(errno));
    }
    return 0;
}

int userns_prepare(const struct rights *rights, const struct sp_plan *plan, struct servers *servers,
                   struct sp_error *error)
{
    char program[PATH_MAX];
    servers->count = 0;
    servers->plan = plan;
    if (!squashfuse_find(program, sizeof program)) {
        (void)sp_fail(error, SP_TOOL_MISSING,
                      "mounting without root needs `squashfuse`, which is not installed");
        return sp_hint(error,
                       "install it, for example: apt-get install squashfuse" WITHOUT_A_MOUNT);
    }
    if (!(rights->root && rights->may_mount) && enter_user_namespace(rights, error) != 0) {
        return -1;
    }
    for (size_t index = 0; index < plan->count; index++) {
        struct server *server = &servers->all[servers->count++];
        *server = (struct server){.fuse = -1, .program.start = -1, .complaints = -1};
        if (start_server(program, &plan->steps[index].image, server, error) != 0) {
            return -1;
        }
    }
    return 0;
}

static void close_one(int *descriptor)
{
    if (*descriptor >= 0) {
        (void)close(*descriptor);
    }
    *descriptor = -1;
}

/* Reads the last line that squashfuse wrote, or says what `fault` means. */
static void read_complaint(const struct server *server, int fault, char *text, size_t room)
{
    ssize_t length = pread(server->complaints, text, room - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    size_t used = strlen(text);
    while (used > 0 && text[used - 1] == '\n') {
        text[--used] = '\0';
    }
    const char *last = strrchr(text, '\n');
    if (last != NULL) {
        memmove(text, last + 1, strlen(last + 1) + 1);
    }
    if (text[0] == '\0') {
        (void)snprintf(text, room, "%s", strerror(fault));
    }
}

static int mount_fuse(const struct sp_step *step, const struct server *server, int point)
{
    char target[64];
    char options[160];
    sp_text_numbered(target, sizeof target, "/proc/self/fd/", (unsigned long)point);
    (void)snprintf(options, sizeof options,
                   "fd=%d,rootmode=40000,user_id=%lu,group_id=%lu,default_permissions,allow_other",
                   server->fuse, (unsigned long)geteuid(), (unsigned long)getegid());
    return mount(step->image_path, target, "fuse.squashfuse", MS_RDONLY | MS_NOSUID | MS_NODEV,
                 options);
}

int userns_mount(struct sp_step *step, int point, void *context, struct sp_error *error)
{
    char complaint[256];
    struct servers *servers = context;
    struct server *server = &servers->all[step - servers->plan->steps];
    if (mount_fuse(step, server, point) != 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot mount by FUSE: %s", strerror(errno));
    }
    if (squashfuse_go(&server->program) != 0) {
        return sp_fail(error, SP_MOUNT_FAILED, "cannot start squashfuse: %s", strerror(errno));
    }
    close_one(&server->fuse); /* squashfuse alone holds it now: if it ends, nobody waits for ever */
    step->root = sp_mount_root(step->mount_point, 0);
    /* Asked for the entries of its root folder, a damaged image has no answer. */
    if (step->root >= 0 && sp_folder_is_empty(step->root) >= 0) {
        close_one(&server->complaints);
        return 0;
    }
    read_complaint(server, errno, complaint, sizeof complaint);
    (void)sp_fail(error, SP_MOUNT_FAILED, "squashfuse cannot mount `%s`: %s", step->image_path,
                  complaint);
    return sp_hint(error, "the image is damaged or uses a compression that this squashfuse lacks");
}

void userns_release(struct servers *servers)
{
    for (size_t index = 0; index < servers->count; index++) {
        close_one(&servers->all[index].fuse);
        squashfuse_release(&servers->all[index].program);
        close_one(&servers->all[index].complaints);
    }
    servers->count = 0;
}
