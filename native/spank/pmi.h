/* How the ranks of an image's MPI find each other under srun: `--mpi`, where nobody has chosen it.
 *
 * Slurm's usual default, `none`, makes each rank of every MPI a world of its own, without a word.
 * So the family of the image's MPI chooses, unless the user or the site has. srun has read its
 * options before a plug-in knows of an image: it becomes itself once more, with the variable that
 * stands for the option (SLURM_MPI_TYPE, srun(1)). Nothing was asked of the controller then. */
#ifndef STACKPROOF_SPANK_PMI_H
#define STACKPROOF_SPANK_PMI_H

#include <stdbool.h>

/* Returns what a family's library speaks, as `pmi2`; NULL for a family that is not known. */
const char *pmi_wanted(const char *family);

/* Returns whether ranks of this family are alone under `--mpi=TYPE`, and do not say so. */
bool pmi_leaves_alone(const char *family, const char *type);

/* Keeps what the user's environment says, before srun writes there what it has found. */
void pmi_remember(void);

/* Chooses for the images of a mount list, before anything is applied. Does not return where srun
 * starts anew; warns where ranks would be alone and that cannot be changed. */
void pmi_choose(const char *mounts);

#endif
