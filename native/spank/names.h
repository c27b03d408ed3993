/* Variables of the environment that both ends know. */
#ifndef STACKPROOF_SPANK_NAMES_H
#define STACKPROOF_SPANK_NAMES_H

/* The mount list on its way to the nodes, IMAGE:MOUNT,…; empty where the user wants nothing. Slurm
 * passes on what begins with SLURM_ even under `--export=NONE`. No task sees it. */
#define NAME_WIRE "SLURM_STACKPROOF_MOUNTS"

/* Beside it: the labels that its images were asked for, with commas between them; a file has an
 * empty one. Set by `stackproof activate --null`; unset where no image has a label. */
#define NAME_LABELS "SLURM_STACKPROOF_LABELS"

/* In a step whose `--mpi` the image has chosen, and in what it starts: that choice. */
#define NAME_PMI "SLURM_STACKPROOF_PMI"

/* In a session or task: the mount list, as it is mounted there. */
#define NAME_MOUNTED "STACKPROOF_MOUNTED"

/* In a session or task whose variables views have changed: how that is taken back. */
#define NAME_UNDO "STACKPROOF_UNDO"

#endif
