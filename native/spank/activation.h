/* What images stand for: a mount list and a change of the environment.
 *
 * Where an image wants to be and what its views set is written inside of it. That is read at
 * submission, as the user, by answer.c, or by the program `stackproof activate` where that does not
 * understand it; what it says is only ever applied to the user's own processes. */
#ifndef STACKPROOF_SPANK_ACTIVATION_H
#define STACKPROOF_SPANK_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>

#include "../core/error.h"

/* What is asked. NULL: not said. */
struct activation_request {
    const char *images;
    const char *view;
    const char *transport;
    bool no_view;
    bool keep; /* add to the views of the session around instead of replacing them */
};

/* One step of the change: set `name`, or unset it where `value` is NULL. */
struct activation_change {
    const char *name;
    const char *value;
};

/* An answer; the texts live in `records`. */
struct activation {
    char *records;
    size_t length;
    const char *mounts; /* IMAGE:MOUNT,…, empty for nothing */
    struct activation_change *changes;
    size_t count;
};

/* Hears each line that the program wrote to standard error. */
typedef void activation_listener(const char *line);

/* Asks `program`. Fails with tool-missing when it cannot be started, and with usage when it said no
 * or gave no whole answer; `listener` has heard why then. The answer must be freed. */
int activation_ask(const char *program, const struct activation_request *request,
                   activation_listener *listener, struct activation *activation,
                   struct sp_error *error);

/* Reads the answer in `activation->records` (`length` bytes, which it changes) and fills in the
 * rest; -1 when it is not whole or not as mount/cli/activate.py describes it. To be freed either
 * way. */
int activation_parse(struct activation *activation);

void activation_free(struct activation *activation);

#endif
