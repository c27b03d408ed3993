/* The plug-in as Slurm sees it: every function that it calls, and nothing else is exported.
 *
 * | where                 | as   | callbacks of ours                     | file     |
 * | srun, sbatch, salloc  | user | init, init_post_opt                   | submit.c |
 * | slurmstepd, each step | root | init, init_post_opt, exit             | step.c   |
 * | each task, forked     | root | task_init_privileged                  | task.c   |
 * | each task, forked     | user | task_init                             | here     |
 *
 * On a node a callback before task_init must not fail: a batch job would drain the node and be
 * called COMPLETED. In task_init the user sees the message, and the job is FAILED. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(stackproof, 1)
#pragma GCC visibility pop

#include "arguments.h"
#include "options.h"
#include "pmi.h"
#include "report.h"
#include "step.h"
#include "submit.h"
#include "task.h"

#define EXPORTED __attribute__((visibility("default")))

/* Slurm's callbacks have no room for a context of ours. */
static struct step current_step;

static int at_submission(enum command command, int count, char *words[])
{
    struct arguments arguments;
    struct sp_error error;
    if (arguments_read(count, words, &arguments, &error) != 0) {
        report_error(&error);
        return -1;
    }
    return submit(command, &arguments);
}

EXPORTED int slurm_spank_init(spank_t spank, int count, char *words[])
{
    struct arguments arguments;
    struct sp_error error;
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        pmi_remember();
        options_forget_inherited();
        __attribute__((fallthrough));
    case S_CTX_REMOTE:
        if (options_register(spank) != 0) {
            slurm_error("stackproof: an option is taken by another plug-in: --image, --view or "
                        "--transport");
        }
        break;
    case S_CTX_SLURMD:
        if (arguments_read(count, words, &arguments, &error) != 0) {
            report_error(&error); /* once, in the log where an administrator looks */
        }
        break;
    case S_CTX_JOB_SCRIPT:
    case S_CTX_ERROR:
    default:
        break;
    }
    return 0;
}

EXPORTED int slurm_spank_init_post_opt(spank_t spank, int count, char *words[])
{
    switch (spank_context()) {
    case S_CTX_LOCAL:
        return at_submission(COMMAND_SRUN, count, words);
    case S_CTX_ALLOCATOR:
        return at_submission(command_of_allocator(), count, words);
    case S_CTX_REMOTE:
        step_prepare(&current_step, spank, option_image_was_asked());
        return 0;
    case S_CTX_SLURMD:
    case S_CTX_JOB_SCRIPT:
    case S_CTX_ERROR:
    default:
        return 0;
    }
}

EXPORTED int slurm_spank_task_init_privileged(spank_t spank, int count, char *words[])
{
    (void)spank;
    (void)count;
    (void)words;
    if (current_step.state == STEP_READY) {
        task_mount(&current_step);
    }
    return 0;
}

EXPORTED int slurm_spank_task_init(spank_t spank, int count, char *words[])
{
    int task = 0;
    (void)count;
    (void)words;
    bool first = spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task == 0;
    step_forget_choice(spank);
    if (current_step.has_warning && first) {
        report_error(&current_step.warning);
    }
    if (current_step.state != STEP_FAILED) {
        return 0;
    }
    /* What failed for the whole step is told once for each node, not by each of its tasks. */
    if (current_step.is_mounting || first) {
        report_error(&current_step.error);
    }
    return -1;
}

EXPORTED int slurm_spank_exit(spank_t spank, int count, char *words[])
{
    (void)spank;
    (void)count;
    (void)words;
    if (spank_context() == S_CTX_REMOTE) {
        step_release(&current_step);
    }
    return 0;
}
