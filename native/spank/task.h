/* On a node, in the process that becomes a task, still as root: mount what the step has attached.
 *
 * Each task has a mount namespace of its own. One for the whole step would be enough, but must be
 * made before Slurm enters that of job_container/tmpfs, which then fails. What is mounted is shared
 * all the same: one loop device and one file system in the kernel for each image of the step.
 *
 * The mounts are nosuid, so that no-new-privileges is not needed to keep set-uid files of an image
 * from having an effect. It is not set, since jobs may use the node's own set-uid programs; so
 * mount points must be folders that no privileged program looks into (SECURITY.md). */
#ifndef STACKPROOF_SPANK_TASK_H
#define STACKPROOF_SPANK_TASK_H

#include "step.h"

/* Mounts; on failure the step is FAILED, for this process alone. */
void task_mount(struct step *step);

#endif
