/* A container that a runtime is about to start: its state and its configuration (OCI runtime
 * specification, runtime.md and config.md). */
#ifndef STACKPROOF_CONTAINER_H
#define STACKPROOF_CONTAINER_H

#include <limits.h>
#include <stddef.h>

#include "decide.h"
#include "error.h"

enum { SP_STATE_BYTES = 1024 * 1024, SP_CONFIG_BYTES = 8 * 1024 * 1024 };

/* What was read, and the texts that it points into. */
struct sp_bundle {
    char id[256];
    char root[PATH_MAX];
    long process;
    struct sp_json environment;
    char *state;
    char *config;
};

/* Parses a state; `id`, the process and the folder of the bundle come from it. `text` is kept. */
int sp_bundle_state(struct sp_bundle *bundle, char *text, size_t length, char folder[PATH_MAX],
                    struct sp_error *error);

/* Parses the config.json of a bundle in a folder. `text` is kept. */
int sp_bundle_config(struct sp_bundle *bundle, char *text, size_t length, const char *folder,
                     struct sp_error *error);

/* Reads the state from a descriptor, and the configuration that it names. */
int sp_bundle_load(struct sp_bundle *bundle, int descriptor, struct sp_error *error);

void sp_bundle_free(struct sp_bundle *bundle);

#endif
