/* Whether an artefact fits a container, decided from its manifest and a few headers of ELF files.
 */
#ifndef STACKPROOF_DECIDE_H
#define STACKPROOF_DECIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "json.h"
#include "manifest.h"
#include "search.h"

enum { SP_MOST_PUTS = 64 };

/* What the definition of a hook says beside the artefact; the words are the caller's. */
struct sp_wish {
    const char *level;
    const char *const *folders; /* where programs of the container find libraries, too */
    size_t folder_count;
    const char *const *askers; /* files whose version needs count, not all that is defined now */
    size_t asker_count;
    const char *const *unused; /* parts of an MPI that no program of interest loads */
    size_t unused_count;
};

/* A container that is about to start. `environment` is an array of `NAME=VALUE`; it may be empty
 * (`start` NULL). */
struct sp_container {
    int root;
    struct sp_json environment;
};

/* A file of the artefact, by its row in the manifest, and the file of the container that it covers.
 */
struct sp_put {
    size_t row;
    struct sp_found file;
};

struct sp_decision {
    size_t count;
    struct sp_put puts[SP_MOST_PUTS];
};

/* Fills what is to be put over what. Fails with injection-fails, and the reason, where the artefact
 * does not fit. Close the decision in both cases. */
int sp_decide(const struct sp_manifest *manifest, const struct sp_wish *wish,
              const struct sp_container *container, struct sp_decision *decision,
              struct sp_error *error);

void sp_decision_close(struct sp_decision *decision);

/* Finds the value of a variable in an array of `NAME=VALUE`, the last one; false without one, or
 * where it does not fit. */
bool sp_environment_value(struct sp_json environment, const char *name, char *value, size_t room);

#endif
