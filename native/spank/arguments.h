/* What the administrator wrote behind the plug-in's name in plugstack.conf. */
#ifndef STACKPROOF_SPANK_ARGUMENTS_H
#define STACKPROOF_SPANK_ARGUMENTS_H

#include "../core/error.h"

/* The texts are Slurm's, which keeps them as long as the plug-in is loaded. */
struct arguments {
    const char
        *program; /* `stackproof=`: what answers at submission; a name is looked for on PATH */
};

/* Reads `count` words NAME=VALUE; a name that is not known is an error (usage), so that a mistyped
 * setting is not passed over. */
int arguments_read(int count, char *const words[], struct arguments *arguments,
                   struct sp_error *error);

#endif
