#include "step.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../core/audit.h"
#include "../core/image.h"
#include "../core/policy.h"
#include "names.h"

/* Returns the value of a variable of the job, NULL where it is unset. Not by spank_getenv, which
 * needs to know beforehand how long it is. */
static const char *job_variable(spank_t spank, const char *name)
{
    char **environment = NULL;
    size_t length = strlen(name);
    if (spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS || environment == NULL) {
        return NULL;
    }
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

static int read_identity(spank_t spank, struct sp_identity *identity, struct sp_error *error)
{
    gid_t *groups = NULL;
    int count = 0;
    if (spank_get_item(spank, S_JOB_UID, &identity->user) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &identity->group) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) != ESPANK_SUCCESS ||
        count < 0) {
        return sp_fail(error, SP_NOT_PERMITTED, "Slurm does not say whose job this is");
    }
    identity->groups = groups;
    identity->group_count = groups != NULL ? (size_t)count : 0;
    return 0;
}

/* A path is what it was where the job was submitted: slurmstepd has another working folder. */
static int check_absolute(const struct sp_mount_list *list, struct sp_error *error)
{
    for (size_t number = 0; number < list->count; number++) {
        if (list->entries[number].image[0] != '/') {
            return sp_fail(error, SP_USAGE, "`%s` is not an absolute path",
                           list->entries[number].image);
        }
    }
    return 0;
}

static int open_images(struct step *step, const struct sp_identity *identity,
                       struct sp_error *error)
{
    int result = sp_plan_open(&step->plan, identity, error);
    if (result != 0 && error->reason == SP_IMAGE_MISSING) {
        (void)sp_hint(error, "put the image where this node sees it too: on a shared file system");
    } else if (result != 0 && error->reason == SP_IMAGE_UNREADABLE) {
        (void)sp_hint(error, "you must be allowed to read the image yourself");
    }
    return result;
}

/* Told in a task: here nobody would see it but the administrator. */
static void keep_warning(void *context, const struct sp_error *warning)
{
    struct step *step = context;
    step->warning = *warning;
    step->has_warning = true;
}

static int prepare(struct step *step, spank_t spank, const char *mounts, struct sp_error *error)
{
    struct sp_policy policy;
    struct sp_identity identity;
    if (sp_mount_list_parse(mounts, strlen(mounts), &step->list, NULL, NULL, error) != 0 ||
        (step->labels != NULL && sp_mount_list_label(&step->list, step->labels, error) != 0) ||
        check_absolute(&step->list, error) != 0 ||
        sp_plan_make(&step->list, NULL, &step->plan, error) != 0 ||
        read_identity(spank, &identity, error) != 0 ||
        sp_policy_load(STACKPROOF_POLICY_FOLDER, &policy, error) != 0) {
        return -1;
    }
    int result = sp_plan_check_policy(&step->plan, &policy, error);
    result = result == 0 ? open_images(step, &identity, error) : result;
    result = result == 0 ? sp_plan_check_trust(&step->plan, STACKPROOF_POLICY_FOLDER, keep_warning,
                                               step, error)
                         : result;
    result = result == 0 ? sp_plan_check_images(&step->plan, &policy, error) : result;
    const struct sp_loop_owner owner = {.user = identity.user, .most = policy.loops_per_user};
    result = result == 0
                 ? sp_plan_attach(&step->plan, identity.user == 0 ? NULL : &owner, 0, error)
                 : result;
    sp_policy_free(&policy);
    if (result == 0) {
        sp_audit("stackproof_spank", identity.user, &step->plan);
    }
    return result;
}

void step_forget_choice(spank_t spank)
{
    const char *type = job_variable(spank, "SLURM_MPI_TYPE");
    const char *ours = job_variable(spank, NAME_PMI);
    if (type != NULL && ours != NULL && strcmp(type, ours) == 0) {
        (void)spank_unsetenv(spank, "SLURM_MPI_TYPE");
    }
    (void)spank_unsetenv(spank, NAME_PMI);
}

void step_prepare(struct step *step, spank_t spank, bool asked)
{
    memset(step, 0, sizeof *step);
    const char *found = job_variable(spank, NAME_WIRE);
    char *mounts = found != NULL ? strdup(found) : NULL;
    const char *labels = job_variable(spank, NAME_LABELS);
    step->labels = labels != NULL ? strdup(labels) : NULL;
    (void)spank_unsetenv(spank, NAME_WIRE);
    (void)spank_unsetenv(spank, NAME_LABELS);
    (void)spank_unsetenv(spank, NAME_MOUNTED); /* true only where the job was submitted */
    if (mounts == NULL) {
        if (asked || found != NULL) {
            step->state = STEP_FAILED;
            (void)sp_fail(
                &step->error, SP_USAGE,
                "the job asks for an image, but does not say which file is mounted where");
            (void)sp_hint(&step->error,
                          "submit it where the plug-in of stackproof is in plugstack.conf");
        }
    } else if (*mounts != '\0') {
        if (prepare(step, spank, mounts, &step->error) == 0) {
            step->state = STEP_READY;
            (void)spank_setenv(spank, NAME_MOUNTED, mounts, 1);
        } else {
            step_release(step);
            step->state = STEP_FAILED;
        }
    }
    if (step->state != STEP_READY) {
        free(step->labels);
        step->labels = NULL;
    }
    free(mounts);
}

void step_release(struct step *step)
{
    sp_plan_release(&step->plan);
    sp_mount_list_free(&step->list);
    free(step->labels);
    step->labels = NULL;
    step->state = STEP_WITHOUT_IMAGES;
}
