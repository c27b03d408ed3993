/* The rights of this process: who it is for, what it borrowed, and that it gives that back.
 *
 * Threat model. The caller controls arguments, environment, descriptors, resource limits, working
 * folder, signals and timing, and every file they may write to. The program may be setuid root or
 * have file capabilities. Therefore:
 *
 * - rights_begin, called before anything is read, makes all ids the caller's. What is left of root
 *   are two capabilities, and they are *permitted*, not in effect: every file is opened with the
 *   caller's own rights, as if there were no privilege.
 * - CAP_DAC_READ_SEARCH is in effect while loop devices are attached, CAP_SYS_ADMIN then and while
 *   the namespace is made and the images are mounted. No path of the caller is opened meanwhile but
 *   mount points, with the caller's rights.
 * - No new right can be gained from the first line on (no-new-privileges), not by the command
 * either.
 * - The process cannot be traced and leaves no core while it holds anything (not dumpable).
 * - rights_drop gives all back for good, and looks whether it is so. */
#ifndef STACKPROOF_RIGHTS_H
#define STACKPROOF_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "error.h"

struct rights {
    uid_t user;
    gid_t group;
    bool root;      /* the caller is root: what is in effect is theirs, and stays so */
    bool may_mount; /* CAP_SYS_ADMIN is in effect (root) or held back (others) */
};

/* Takes on the caller's ids and holds back what is needed. Fails with not-permitted. */
int rights_begin(struct rights *rights, struct sp_error *error);

/* Returns whether the kernel would mount an image for this process: only in the first user
 * namespace, with CAP_SYS_ADMIN, and where there are loop devices. */
bool rights_allow_kernel_mount(const struct rights *rights);

/* Puts CAP_SYS_ADMIN into effect; with `devices` also CAP_DAC_READ_SEARCH. Nothing for root. */
int rights_raise(const struct rights *rights, bool devices, struct sp_error *error);

/* Takes both out of effect. */
int rights_lower(const struct rights *rights, struct sp_error *error);

/* Gives back for good what is not the caller's, and makes sure of it. */
int rights_drop(struct rights *rights, struct sp_error *error);

#endif
