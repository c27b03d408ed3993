/* stackproof-oci-hook: puts libraries of an artefact over those of a container, if they fit.
 *
 * A runtime of containers (runc, crun, and what starts them: Podman, Sarus) starts it when the
 * container's mounts are made and its root is not entered yet. What it decides on is decide.h; it
 * starts nothing, follows no link out of the container, and opens regular files only. It ends with
 * 0, or with an exit code other than 0, which keeps the container from starting. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "attach.h"
#include "container.h"
#include "inside.h"
#include "options.h"
#include "text.h"

enum { LOG_MODE = 0644, NANOSECONDS = 1000, SECONDS = 1000000 };

/* What one run works on. */
struct run {
    struct hook_options options;
    struct sp_manifest manifest;
    struct sp_bundle bundle;
    struct sp_decision decision;
    struct sp_clones clones;
    int artefact;
    int log;
    long microseconds;
};

/* Paths, variables and the container's name are the image's: none may look like a line of ours. */
static void say(const struct run *run, const char *text)
{
    char shown[3 * PATH_MAX];
    (void)snprintf(shown, sizeof shown, "%s", text);
    sp_text_make_printable(shown);
    (void)dprintf(STDERR_FILENO, "stackproof-oci-hook: %s\n", shown);
    if (run->log >= 0) {
        (void)snprintf(shown, sizeof shown, "%.256s: %s", run->bundle.id, text);
        sp_text_make_printable(shown);
        (void)dprintf(run->log, "%s\n", shown);
    }
}

static void say_error(const struct run *run, const struct sp_error *error, const char *start)
{
    char text[SP_MESSAGE_BYTES + SP_HINT_BYTES + 64];
    (void)snprintf(text, sizeof text, "%s[%s] %s%s%s", start, sp_reason_name(error->reason),
                   error->message, error->hint[0] == '\0' ? "" : "; ", error->hint);
    say(run, text);
}

static long now(void)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECONDS + time.tv_nsec / NANOSECONDS;
}

/* Opens the artefact and reads its manifest. Others than root may not write to it. */
static int load_artefact(struct run *run, struct sp_error *error)
{
    struct stat state;
    const char *path = run->options.artefact;
    size_t length = 0;
    run->artefact = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (run->artefact < 0 || fstat(run->artefact, &state) != 0) {
        return sp_fail(error, SP_IMAGE_MISSING, "cannot open the artefact `%s`: %s", path,
                       strerror(errno));
    }
    if ((state.st_mode & S_IWOTH) != 0) {
        (void)sp_fail(error, SP_NOT_PERMITTED, "everybody may write to `%s`", path);
        return sp_hint(error, "make it writable for its owner alone");
    }
    char *text = sp_inside_read(run->artefact, SP_MANIFEST_NAME, SP_MANIFEST_BYTES, &length);
    if (text == NULL) {
        (void)sp_fail(error, SP_IMAGE_MISSING, "`%s` has no " SP_MANIFEST_NAME, path);
        return sp_hint(error, "name the folder of one variant of an artefact");
    }
    int result = sp_manifest_parse(text, length, path, &run->manifest, error);
    free(text);
    return result;
}

static int open_root(const char *path, struct sp_error *error)
{
    int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        (void)sp_fail(error, SP_MOUNT_FAILED, "cannot open the root `%s` of the container: %s",
                      path, strerror(errno));
    }
    return root;
}

static int decide(struct run *run, int root, struct sp_error *error)
{
    const struct sp_container container = {
        .root = root,
        .environment = run->bundle.environment,
    };
    long start = now();
    int result = sp_decide(&run->manifest, &run->options.wish, &container, &run->decision, error);
    run->microseconds = now() - start;
    return result;
}

/* Says what is done, or would be. */
static void say_decision(const struct run *run, const char *what)
{
    char text[2 * PATH_MAX];
    for (size_t index = 0; index < run->decision.count; index++) {
        const struct sp_put *put = &run->decision.puts[index];
        (void)snprintf(text, sizeof text, "%s %s/%s over %s", what, run->manifest.name,
                       run->manifest.replaces.rows[put->row].words[2], put->file.path);
        say(run, text);
    }
}

/* Decides on a root folder, and says so: the environment is that of this process. */
static int try_root(struct run *run, struct sp_error *error)
{
    char text[64];
    int root = open_root(run->options.try_root, error);
    if (root < 0) {
        return -1;
    }
    int result = decide(run, root, error);
    (void)close(root);
    if (result == 0) {
        say_decision(run, "would put");
    }
    (void)snprintf(text, sizeof text, "decided in %ld microseconds", run->microseconds);
    say(run, text);
    return result;
}

static int inject(struct run *run, struct sp_error *error)
{
    if (sp_bundle_load(&run->bundle, STDIN_FILENO, error) != 0 ||
        sp_clones_make(&run->clones, run->artefact, &run->manifest, run->options.wish.level,
                       error) != 0 ||
        (run->options.stage == STAGE_RUNTIME &&
         sp_enter_mounts_of(run->bundle.process, error) != 0) ||
        sp_check_mounts_are_private(error) != 0) {
        return -1;
    }
    int root = open_root(run->bundle.root, error);
    if (root < 0) {
        return -1;
    }
    int result = decide(run, root, error);
    if (result == 0) {
        result = sp_attach(&run->clones, &run->manifest, &run->decision, root, error);
    }
    (void)close(root);
    if (result == 0) {
        say_decision(run, "put");
    }
    return result;
}

static int work(struct run *run)
{
    struct sp_error error = {.reason = SP_USAGE, .message = "", .hint = ""};
    int result = load_artefact(run, &error);
    if (result == 0) {
        result = run->options.try_root != NULL ? try_root(run, &error) : inject(run, &error);
    }
    if (result == 0) {
        return 0;
    }
    if (error.reason == SP_INJECTION_FAILS && run->options.skip) {
        say_error(run, &error, "not injected: ");
        return 0;
    }
    say_error(run, &error, "error: ");
    return sp_reason_exit_code(error.reason);
}

int main(int argc, char **argv)
{
    struct sp_error error;
    struct run *run = calloc(1, sizeof *run);
    (void)argc;
    if (run == NULL) {
        return 1;
    }
    run->log = -1;
    run->artefact = -1;
    run->clones.folder = -1;
    for (size_t row = 0; row < SP_MANIFEST_ROWS; row++) {
        run->clones.files[row] = -1;
    }
    int code = 0;
    if (hook_options_parse(argv, &run->options, &error) != 0) {
        say_error(run, &error, "error: ");
        code = sp_reason_exit_code(error.reason);
    } else if (run->options.help) {
        (void)dprintf(STDOUT_FILENO, "%s", hook_usage);
    } else if (run->options.version) {
        (void)dprintf(STDOUT_FILENO, "stackproof-oci-hook %s\n", STACKPROOF_VERSION);
    } else {
        if (run->options.log != NULL) {
            run->log =
                open(run->options.log,
                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, LOG_MODE);
        }
        code = work(run);
    }
    sp_decision_close(&run->decision);
    sp_clones_close(&run->clones);
    sp_manifest_free(&run->manifest);
    sp_bundle_free(&run->bundle);
    if (run->artefact >= 0) {
        (void)close(run->artefact);
    }
    if (run->log >= 0) {
        (void)close(run->log);
    }
    free(run);
    return code;
}
