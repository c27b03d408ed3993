/* What comes last, without privileges: the environment of the command, and becoming it. */
#ifndef STACKPROOF_COMMAND_H
#define STACKPROOF_COMMAND_H

#include "error.h"
#include "mountlist.h"
#include "plan.h"

#define MARKER "STACKPROOF_MOUNTED"
#define FORWARD "STACKPROOF_FWD_"

/* Sets `X` for every variable `STACKPROOF_FWD_X`, which is removed: the loader takes LD_… and
 * others away from a privileged program. Then says what is mounted in MARKER, behind what was
 * mounted around it; `folder` is what relative image paths begin at. Fails with mount-failed (no
 * memory). */
int command_environment(const struct sp_plan *plan, const char *folder, struct sp_error *error);

/* Becomes the command, found as execvp(3) does. Fails with command-not-found; `*exit_code` is 127
 * or 126 as of env(1). */
int command_become(char **command, int *exit_code, struct sp_error *error);

#endif
