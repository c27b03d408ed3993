/* stackproof-mount: mounts images where only one command sees them, then becomes the command.
 *
 * Three ways: as root; with borrowed rights (setuid root or file capabilities), at mount points of
 * the administrator's list; and without any, by squashfuse in a user namespace. rights.h has the
 * threat model, core/plan.h the order of what is done. The process becomes the command, so exit
 * code, signals, terminal and accounting are the command's own; the mounts end with it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "audit.h"
#include "mount.h"
#include "options.h"
#include "plan.h"
#include "policy.h"
#include "rights.h"
#include "userns.h"

enum { NOT_POSSIBLE = 4 };

/* What one run works on. */
struct run {
    struct rights rights;
    struct options options;
    struct sp_mount_list overlays;
    struct sp_plan plan;
    struct sp_policy policy;
    struct servers servers;
    char folder[PATH_MAX]; /* the working folder */
};

static void print_problem(void *context, const struct sp_error *problem)
{
    (void)context;
    (void)dprintf(STDERR_FILENO, "error: [%s] %s\n", sp_reason_name(problem->reason),
                  problem->message);
    if (problem->hint[0] != '\0') {
        (void)dprintf(STDERR_FILENO, "hint: %s\n", problem->hint);
    }
}

/* Counts the problems of mount lists, which are printed while they are found. */
static bool printed_already;

static void print_list_problem(void *context, const struct sp_error *problem)
{
    printed_already = true;
    print_problem(context, problem);
}

static void say(const struct run *run, const char *text)
{
    if (run->options.verbose) {
        (void)dprintf(STDERR_FILENO, "%s\n", text);
    }
}

/* Opens what is closed of the first three descriptors: no file of ours may become one of them. */
static int open_standard_descriptors(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) != descriptor) {
            return -1;
        }
    }
    return 0;
}

/* Resolves `auto`, and refuses a way that is not there. */
static int choose_way(struct run *run, struct sp_error *error)
{
    enum way kernel_way = run->rights.root ? WAY_ROOT : WAY_SETUID;
    enum way *way = &run->options.way;
    if (*way == WAY_USERNS) {
        return 0;
    }
    bool by_kernel = rights_allow_kernel_mount(&run->rights);
    if (*way == WAY_AUTO) {
        *way = by_kernel ? kernel_way : WAY_USERNS;
        return 0;
    }
    if (by_kernel && *way == kernel_way) {
        return 0;
    }
    if (*way == WAY_ROOT) {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "`--way=root` is for root, on a machine with loop devices");
    } else {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "this program is not installed with the rights to mount");
    }
    return sp_hint(error, "leave `--way` out to mount with squashfuse");
}

static int load_policy(struct run *run, struct sp_error *error)
{
    return sp_policy_load(STACKPROOF_POLICY_FOLDER, &run->policy, error);
}

/* The privileged part of `setuid`, and all of `root`: from here to rights_lower. */
static int mount_with_rights(struct run *run, struct sp_error *error)
{
    const struct sp_loop_owner owner = {.user = run->rights.user,
                                        .most = run->policy.loops_per_user};
    if (rights_raise(&run->rights, true, error) != 0 ||
        sp_plan_attach(&run->plan, run->rights.root ? NULL : &owner, 0, error) != 0 ||
        rights_raise(&run->rights, false, error) != 0 || sp_mount_namespace_enter(error) != 0 ||
        sp_plan_mount(&run->plan, 0, error) != 0 || rights_lower(&run->rights, error) != 0) {
        return -1;
    }
    sp_audit("stackproof-mount", run->rights.user, &run->plan);
    return 0;
}

static void print_warning(void *context, const struct sp_error *warning)
{
    (void)context;
    (void)dprintf(STDERR_FILENO, "warning: [%s] %s\n", sp_reason_name(warning->reason),
                  warning->message);
}

/* Whoever starts this, in whichever way: what a site asks of images it asks of all. */
static int open_images(struct run *run, struct sp_error *error)
{
    if (sp_plan_open(&run->plan, NULL, error) != 0) {
        return -1;
    }
    return sp_plan_check_trust(&run->plan, STACKPROOF_POLICY_FOLDER, print_warning, NULL, error);
}

static int mount_by_kernel(struct run *run, struct sp_error *error)
{
    bool borrowed = run->options.way == WAY_SETUID;
    say(run, borrowed ? "mounting by a loop device, with the rights that this program has"
                      : "mounting by a loop device, as root");
    if (borrowed && (load_policy(run, error) != 0 ||
                     sp_plan_check_policy(&run->plan, &run->policy, error) != 0)) {
        return -1;
    }
    if (open_images(run, error) != 0 ||
        (borrowed && sp_plan_check_images(&run->plan, &run->policy, error) != 0)) {
        return -1;
    }
    return mount_with_rights(run, error);
}

static int check_unprivileged(struct run *run, struct sp_error *error)
{
    struct sp_error ignored;
    /* A policy that cannot be read has no say: nothing here needs a right that it could refuse.
     * Seen from another user namespace, for example, the file is nobody's. */
    if (load_policy(run, &ignored) == 0 && !run->policy.unprivileged) {
        (void)sp_fail(error, SP_NOT_PERMITTED,
                      "this site does not offer squashfuse in a user namespace");
        return sp_hint(error, "see `unprivileged` in " SP_POLICY_NAME);
    }
    return 0;
}

static int mount_by_squashfuse(struct run *run, struct sp_error *error)
{
    if (rights_drop(&run->rights, error) != 0) {
        return -1;
    }
    say(run, run->rights.root && run->rights.may_mount
                 ? "mounting by squashfuse"
                 : "mounting by squashfuse, in a user namespace");
    if (check_unprivileged(run, error) != 0 || open_images(run, error) != 0 ||
        userns_prepare(&run->rights, &run->plan, &run->servers, error) != 0 ||
        sp_mount_namespace_enter(error) != 0) {
        return -1;
    }
    return sp_plan_mount_by(&run->plan, userns_mount, &run->servers, 0, error);
}

static int mount_all(struct run *run, struct sp_error *error)
{
    if (choose_way(run, error) != 0 ||
        options_overlays(&run->options, &run->overlays, error) != 0 ||
        sp_plan_make(&run->options.images, &run->overlays, &run->plan, error) != 0) {
        return -1;
    }
    int result = run->options.way == WAY_USERNS ? mount_by_squashfuse(run, error)
                                                : mount_by_kernel(run, error);
    sp_plan_release(&run->plan);
    userns_release(&run->servers);
    if (run->policy.memory != NULL) { /* not even looked at where none was read */
        sp_policy_free(&run->policy);
    }
    return result;
}

/* Enters the working folder anew: what is mounted on it, or around it, is seen only then. */
static void return_to(const char *folder)
{
    if (chdir(folder) != 0 && chdir("/") != 0) {
        (void)dprintf(STDERR_FILENO, "cannot enter the working folder: %s\n", strerror(errno));
    }
}

/* Mounts, gives up all rights and becomes the command; returns the exit code of a failure. */
static int run_command(struct run *run, struct sp_error *error)
{
    int exit_code = 0;
    if (getcwd(run->folder, sizeof run->folder) == NULL || run->folder[0] != '/') {
        (void)snprintf(run->folder, sizeof run->folder, "/"); /* it has been deleted */
    }
    if (mount_all(run, error) != 0 || rights_drop(&run->rights, error) != 0) {
        return sp_reason_exit_code(error->reason);
    }
    return_to(run->folder);
    if (command_environment(&run->plan, run->folder, error) != 0) {
        return sp_reason_exit_code(error->reason);
    }
    (void)command_become(run->options.command, &exit_code, error);
    return exit_code;
}

int main(int argc, char **argv)
{
    static struct run run; /* of zeros: only the pages that are used are ever had */
    struct sp_error error = {.reason = SP_USAGE};
    (void)argc;
    int without_rights = rights_begin(&run.rights, &error); /* before any file is opened */
    if (open_standard_descriptors() != 0) {
        return NOT_POSSIBLE;
    }
    if (without_rights != 0) {
        print_problem(NULL, &error);
        return sp_reason_exit_code(error.reason);
    }
    int exit_code = 0;
    if (options_parse(argv, &run.options, print_list_problem, &error) != 0) {
        exit_code = sp_reason_exit_code(error.reason);
    } else if (run.options.help) {
        (void)dprintf(STDOUT_FILENO, "%s", usage_text);
    } else if (run.options.version) {
        (void)dprintf(STDOUT_FILENO, "stackproof-mount " STACKPROOF_VERSION "\n");
    } else {
        exit_code = run_command(&run, &error);
    }
    if (exit_code != 0 && !printed_already) {
        print_problem(NULL, &error);
    }
    options_free(&run.options);
    return exit_code;
}
