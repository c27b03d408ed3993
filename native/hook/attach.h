/* Mounts of an artefact: made as copies that are attached nowhere, then put into a container. */
#ifndef STACKPROOF_ATTACH_H
#define STACKPROOF_ATTACH_H

#include "decide.h"
#include "error.h"
#include "manifest.h"

/* Mounts that are attached nowhere yet: the artefact's folder, and each file by its row. */
struct sp_clones {
    int folder;
    int files[SP_MANIFEST_ROWS];
};

/* Makes copies of what can be put into a container at a level; `artefact` is its open folder. They
 * must be made where the artefact is seen, before a mount namespace is entered. */
int sp_clones_make(struct sp_clones *clones, int artefact, const struct sp_manifest *manifest,
                   const char *level, struct sp_error *error);

/* Enters the mount namespace of a process; fails where this thread is in it already. */
int sp_enter_mounts_of(long process, struct sp_error *error);

/* Fails where this thread is in the mount namespace of the machine, whose mounts would be changed.
 */
int sp_check_mounts_are_private(struct sp_error *error);

/* Puts the artefact at its place in the container, and files over those of the container. */
int sp_attach(const struct sp_clones *clones, const struct sp_manifest *manifest,
              const struct sp_decision *decision, int root, struct sp_error *error);

void sp_clones_close(struct sp_clones *clones);

#endif
