/* From a mount list to mounts: everything is parsed and checked before anything is done.
 *
 *     sp_plan_make            what to mount where, outer mount points first    no effect
 *     sp_plan_check_policy    ... at places of the administrator's list         no effect
 *     sp_plan_open            images opened as the user, superblocks checked
 *     sp_plan_check_images    ... that the administrator trusts
 *     sp_plan_check_trust     ... and that are signed as the site asks
 *     sp_plan_attach          a loop device for each image          needs /dev/loop*
 *     --- from here also in another process that inherited the descriptors ---
 *     sp_mount_namespace_enter                                      needs CAP_SYS_ADMIN
 *     sp_plan_mount           every image at its place              needs CAP_SYS_ADMIN
 *     sp_plan_release         closes all descriptors; mounts stay with the namespace
 *
 * A plan is released in each process that has it and on every path of errors. Descriptors are
 * closed on exec, and the kernel frees loop devices with their last user, so a process that is
 * killed between any two of these leaves nothing. */
#ifndef STACKPROOF_PLAN_H
#define STACKPROOF_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "image.h"
#include "loop.h"
#include "mountlist.h"
#include "policy.h"
#include "trust.h"

/* One image and its place; `overlay` lies over the image that is mounted there before it. The
 * texts belong to the lists that the plan was made of; `label` is NULL where none was asked for. */
struct sp_step {
    const char *image_path;
    const char *mount_point;
    const char *label;
    bool overlay;
    struct sp_image image;
    struct sp_loop loop;
    int root; /* of the mounted image, while mounting */
};

struct sp_plan {
    size_t count;
    struct sp_step steps[SP_MAX_IMAGES];
};

/* Mounts the image of one step on `point`, as sp_mount_loop does; see sp_plan_mount_by. */
typedef int sp_plan_mounter(struct sp_step *step, int point, void *context, struct sp_error *error);

/* Orders the images of `images` and, over them, of `overlays` (a list, or NULL; the later ones on
 * top). The lists must live as long as the plan. Fails with usage where an entry names no mount
 * point, or an overlay one that no image has. */
int sp_plan_make(const struct sp_mount_list *images, const struct sp_mount_list *overlays,
                 struct sp_plan *plan, struct sp_error *error);

int sp_plan_check_policy(const struct sp_plan *plan, const struct sp_policy *policy,
                         struct sp_error *error);

/* `as` as for sp_image_open. */
int sp_plan_open(struct sp_plan *plan, const struct sp_identity *as, struct sp_error *error);

int sp_plan_check_images(const struct sp_plan *plan, const struct sp_policy *policy,
                         struct sp_error *error);

/* Asks SP_TRUST_NAME of `folder` about each open image, as sp_trust_check. */
int sp_plan_check_trust(const struct sp_plan *plan, const char *folder,
                        sp_trust_listener *listener, void *context, struct sp_error *error);

/* `owner` as for sp_loop_attach. `flags`: 0 or SP_OLD_KERNEL, here and below. */
int sp_plan_attach(struct sp_plan *plan, const struct sp_loop_owner *owner, unsigned flags,
                   struct sp_error *error);

/* Mounts the loop devices of a plan, in a namespace that is already private. */
int sp_plan_mount(struct sp_plan *plan, unsigned flags, struct sp_error *error);

/* The same with another way to mount one image. */
int sp_plan_mount_by(struct sp_plan *plan, sp_plan_mounter *mounter, void *context, unsigned flags,
                     struct sp_error *error);

void sp_plan_release(struct sp_plan *plan);

#endif
