/* On a node, in slurmstepd, once for each step: open the images and attach them to loop devices.
 *
 * This runs as root, on text that the user chose. What it does with it: the list is parsed and
 * checked against the administrator's policy; images are opened with the user's rights alone; their
 * superblocks are checked; the descriptors are attached to loop devices. Nothing here fails a
 * callback: Slurm would drain the node. The error is kept and told in the tasks. */
#ifndef STACKPROOF_SPANK_STEP_H
#define STACKPROOF_SPANK_STEP_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "../core/mountlist.h"
#include "../core/plan.h"

enum step_state { STEP_WITHOUT_IMAGES, STEP_READY, STEP_FAILED };

/* What a step mounts; `plan` is attached where the state is READY. */
struct step {
    enum step_state state;
    bool is_mounting;      /* this is a task that has tried to mount */
    struct sp_error error; /* where it is FAILED */
    bool has_warning;      /* an image is not signed as this site asks, and mounted all the same */
    struct sp_error warning;
    struct sp_mount_list list;
    char *labels; /* that its images were asked for; NULL for none */
    struct sp_plan plan;
};

/* Reads what was asked from the environment of the job and prepares it; takes the variables that
 * brought it away and sets the one that tasks see. `asked` says that the job was submitted with an
 * image, so that nothing in the environment is an error. */
void step_prepare(struct step *step, spank_t spank, bool asked);

/* Takes away the `--mpi` that this plug-in has chosen for an image (see pmi.h), once the task has
 * what that type gives it: an srun within the step may have no image, or another one. */
void step_forget_choice(spank_t spank);

/* Closes all descriptors of this process. The loop devices go with the last process that has one
 * and with the last mount. */
void step_release(struct step *step);

#endif
