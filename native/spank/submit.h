/* At submission, in srun, sbatch and salloc: as the user, where the command was called. */
#ifndef STACKPROOF_SPANK_SUBMIT_H
#define STACKPROOF_SPANK_SUBMIT_H

#include "arguments.h"

/* Which command this is. */
enum command { COMMAND_SRUN, COMMAND_SBATCH, COMMAND_SALLOC, COMMAND_SCRONTAB };

/* Tells sbatch, salloc and scrontab apart, which are one context for Slurm. */
enum command command_of_allocator(void);

/* Finds out what the job must have mounted and puts it into the environment that the job gets, with
 * the variables of the views. -1, after telling why, where the command must not go on. Called once
 * for each component of a heterogeneous job. */
int submit(enum command command, const struct arguments *arguments);

#endif
