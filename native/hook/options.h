/* The command line of the hook; man stackproof-oci-hook explains each option. */
#ifndef STACKPROOF_HOOK_OPTIONS_H
#define STACKPROOF_HOOK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "decide.h"
#include "error.h"

enum { HOOK_MOST_WORDS = 64 };

enum hook_stage { STAGE_CREATE_CONTAINER, STAGE_RUNTIME };

/* Everything points into argv. `try_root` is a root folder to decide on, without a container. */
struct hook_options {
    const char *artefact;
    const char *log;
    const char *try_root;
    enum hook_stage stage;
    bool skip;
    bool help;
    bool version;
    struct sp_wish wish;
    const char *folders[HOOK_MOST_WORDS];
    const char *askers[HOOK_MOST_WORDS];
    const char *unused[HOOK_MOST_WORDS];
};

extern const char hook_usage[];

int hook_options_parse(char **argv, struct hook_options *options, struct sp_error *error);

#endif
