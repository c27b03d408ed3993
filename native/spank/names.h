/* Variables of the environment that both ends know. */
#ifndef STACKPROOF_SPANK_NAMES_H
#define STACKPROOF_SPANK_NAMES_H

/* The mount list on its way to the nodes, IMAGE:MOUNT,…; empty where the user wants nothing. Slurm
 * passes on what begins with SLURM_ even under `--export=NONE`. No task sees it. */
#define NAME_WIRE "SLURM_STACKPROOF_MOUNTS"

/* In a session or task: the mount list, as it is mounted there. */
#define NAME_MOUNTED "STACKPROOF_MOUNTED"

/* In a session or task whose variables views have changed: how that is taken back. */
#define NAME_UNDO "STACKPROOF_UNDO"

#endif
