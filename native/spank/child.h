/* A program of the user's, started at submission for what it writes to standard output. */
#ifndef STACKPROOF_SPANK_CHILD_H
#define STACKPROOF_SPANK_CHILD_H

#include <stddef.h>

/* How it ended; `output` and `complaint` must be freed, whatever the result is. */
struct child {
    int fault;  /* errno of what kept it from being started or from ending in time; else 0 */
    int status; /* as waitpid(2) gives it */
    char *output;
    size_t length;
    char *complaint; /* the beginning of what it wrote to standard error, with an end */
};

/* Runs `argv` with `environment` and nothing as input, found on the PATH of this process. -1 where
 * it could not be started (`started` false), or gave more than `limit` bytes, or took too long. */
int child_run(char *const argv[], char *const environment[], size_t limit, struct child *child,
              int *started);

void child_free(struct child *child);

#endif
