/* What images stand for, found out here: the same answer as that of `stackproof activate`, sooner.
 *
 * At submission, as the user. Images are checked, `unsquashfs` gives their `meta/env.json`, meta.c
 * reads it. What is not understood, or not as it should be, is left to the program, which says why;
 * so is all that is rare. */
#ifndef STACKPROOF_SPANK_ANSWER_H
#define STACKPROOF_SPANK_ANSWER_H

#include "../core/error.h"
#include "activation.h"

enum answer_end {
    ANSWER_WHOLE,
    ANSWER_REFUSED, /* the image is not there: `error` says so */
    ANSWER_ASK,     /* the program knows more; `error` says why, for where there is no program */
};

/* Answers for the environment `variables`; the answer must be freed where it is whole. `listener`
 * hears a line for each thing that is odd and no error. */
enum answer_end answer_make(const struct activation_request *request, char *const variables[],
                            activation_listener *listener, struct activation *activation,
                            struct sp_error *error);

#endif
