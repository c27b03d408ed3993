#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside.h"
#include "kernel.h"

static int cannot(struct sp_error *error, const char *what, const char *path)
{
    int fault = errno;
    (void)sp_fail(error, SP_MOUNT_FAILED, "cannot %s `%s`: %s", what, path, strerror(fault));
    if (fault == ENOSYS) {
        return sp_hint(error, "this needs open_tree and mount_setattr (Linux 5.12)");
    }
    return -1;
}

int sp_clones_make(struct sp_clones *clones, int artefact, const struct sp_manifest *manifest,
                   const char *level, struct sp_error *error)
{
    clones->folder = sp_clone_read_only(artefact, "");
    if (clones->folder < 0) {
        return cannot(error, "make a mount of", manifest->name);
    }
    for (size_t row = 0; row < manifest->replaces.count; row++) {
        const char *const *words = manifest->replaces.rows[row].words;
        if (strcmp(words[0], level) != 0) {
            continue;
        }
        clones->files[row] = sp_clone_read_only(artefact, words[2]);
        if (clones->files[row] < 0) {
            return cannot(error, "make a mount of", words[2]);
        }
    }
    return 0;
}

static int not_private(struct sp_error *error)
{
    (void)sp_fail(error, SP_NOT_PERMITTED, "this would change the mounts of the machine");
    return sp_hint(error, "run it at the stage that its --stage says");
}

int sp_enter_mounts_of(long process, struct sp_error *error)
{
    char path[64];
    struct stat own;
    struct stat other;
    (void)snprintf(path, sizeof path, "/proc/%ld/ns/mnt", process);
    int space = process > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (space < 0 || fstat(space, &other) != 0 || stat("/proc/self/ns/mnt", &own) != 0) {
        (void)cannot(error, "look at", path);
        if (space >= 0) {
            (void)close(space);
        }
        return -1;
    }
    int result = 0;
    if (own.st_dev == other.st_dev && own.st_ino == other.st_ino) {
        result = not_private(error);
    } else if (setns(space, CLONE_NEWNS) != 0) {
        result = cannot(error, "enter", path);
    }
    (void)close(space);
    return result;
}

int sp_check_mounts_are_private(struct sp_error *error)
{
    struct stat own;
    struct stat first;
    if (stat("/proc/self/ns/mnt", &own) != 0) {
        return cannot(error, "look at", "/proc/self/ns/mnt");
    }
    /* Without the right to look at the first process this cannot be told. */
    if (stat("/proc/1/ns/mnt", &first) == 0 && first.st_ino == own.st_ino &&
        first.st_dev == own.st_dev) {
        return not_private(error);
    }
    return 0;
}

/* Mounts on a place of the container, unless that would be seen outside. */
static int put_on(int mount, int target, const char *path, struct sp_error *error)
{
    if (sp_inside_is_shared(target)) {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "what is mounted on `%s` would be seen outside of the container", path);
        return sp_hint(error, "mount the volume without `shared` or `rshared`");
    }
    return sp_move_mount(mount, target) == 0 ? 0 : cannot(error, "mount over", path);
}

int sp_attach(const struct sp_clones *clones, const struct sp_manifest *manifest,
              const struct sp_decision *decision, int root, struct sp_error *error)
{
    int place = sp_inside_make(root, manifest->place, error);
    if (place < 0) {
        return -1;
    }
    bool used[SP_MANIFEST_ROWS] = {false};
    int result = put_on(clones->folder, place, manifest->place, error);
    (void)close(place);
    for (size_t index = 0; index < decision->count && result == 0; index++) {
        const struct sp_put *put = &decision->puts[index];
        int mount = clones->files[put->row];
        /* Older kernels copy mounts that are attached somewhere only: the first one is, by now. */
        int copy = used[put->row] ? sp_clone_read_only(mount, "") : mount;
        result = copy < 0 ? cannot(error, "copy the mount for", put->file.path)
                          : put_on(copy, put->file.descriptor, put->file.path, error);
        if (copy >= 0 && copy != mount) {
            (void)close(copy);
        }
        used[put->row] = true;
    }
    return result;
}

void sp_clones_close(struct sp_clones *clones)
{
    if (clones->folder >= 0) {
        (void)close(clones->folder);
    }
    for (size_t row = 0; row < SP_MANIFEST_ROWS; row++) {
        if (clones->files[row] >= 0) {
            (void)close(clones->files[row]);
        }
    }
}
