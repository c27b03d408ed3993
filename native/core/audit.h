/* A line in the system's log for what was done with rights: facility authpriv. */
#ifndef STACKPROOF_AUDIT_H
#define STACKPROOF_AUDIT_H

#include <sys/types.h>

#include "plan.h"

/* Says of each image of a plan who has it mounted where, and which file it is. Never waits and
 * never fails: without somebody at /dev/log nothing is said. The environment is not read, as
 * syslog(3) does (TZ). */
void sp_audit(const char *program, uid_t user, const struct sp_plan *plan);

#endif
