/* Mounting without privileges: a user namespace, /dev/fuse, and a squashfuse for each image. */
#ifndef STACKPROOF_USERNS_H
#define STACKPROOF_USERNS_H

#include <stdbool.h>

#include "error.h"
#include "plan.h"
#include "rights.h"
#include "squashfuse.h"

/* What serves one image: the FUSE device, the program that waits for it, what that complains. */
struct server {
    int fuse;
    struct squashfuse program;
    int complaints;
};

/* The servers of a plan, by the number of the step. */
struct servers {
    size_t count;
    struct server all[SP_MAX_IMAGES];
    const struct sp_plan *plan;
};

/* Enters a user namespace that maps the caller's ids to themselves (none is made for root with
 * CAP_SYS_ADMIN) and starts a squashfuse for each open image of the plan. They wait.
 *
 * The order is the point. The kernel wants /dev/fuse opened in the user namespace that mounts; and
 * squashfuse must start before the mount namespace is made, so that it stays outside: then the
 * namespace, and with it the mount, ends with the command, and squashfuse with the mount.
 *
 * Fails with tool-missing, no-fuse, no-user-namespaces, mount-failed. Release the servers in any
 * case: those that wait then end. */
int userns_prepare(const struct rights *rights, const struct sp_plan *plan, struct servers *servers,
                   struct sp_error *error);

/* Mounts one image of the plan (an sp_plan_mounter); `context` is `struct servers`. */
int userns_mount(struct sp_step *step, int point, void *context, struct sp_error *error);

void userns_release(struct servers *servers);

#endif
