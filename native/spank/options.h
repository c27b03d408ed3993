/* The options --image, --view and --transport, and the variables that stand for them. */
#ifndef STACKPROOF_SPANK_OPTIONS_H
#define STACKPROOF_SPANK_OPTIONS_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "../core/error.h"

enum option { OPTION_IMAGE, OPTION_VIEW, OPTION_TRANSPORT, OPTIONS };

/* The word that switches an image, or its views, off. */
extern const char option_none[];

/* Registers the options; to be called from slurm_spank_init alone. */
int options_register(spank_t spank);

/* Takes away the variables by which Slurm gives the options of sbatch and salloc to every srun
 * inside as if they had been written there: relative paths would be looked for elsewhere, and
 * `none` of the session around would be overruled. To be called before options are read. */
void options_forget_inherited(void);

/* Returns what was written on the command line or behind `#SBATCH`, or NULL. */
const char *option_given(enum option option);

/* Returns whether Slurm says on a node that the job was submitted with --image, and not `none`. */
bool option_image_was_asked(void);

/* Returns the name of an option without dashes, such as `image`. */
const char *option_name(enum option option);

/* Checks the text of an option as far as text can be checked: everywhere the same. */
int option_check(enum option option, const char *text, struct sp_error *error);

#endif
