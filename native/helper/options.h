/* The command line. */
#ifndef STACKPROOF_OPTIONS_H
#define STACKPROOF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "mountlist.h"

enum { MAX_OVERLAYS = 14 };

/* How to mount: `WAY_ROOT` and `WAY_SETUID` by the kernel, `WAY_USERNS` by squashfuse. */
enum way { WAY_AUTO, WAY_ROOT, WAY_SETUID, WAY_USERNS };

struct options {
    enum way way;
    bool verbose;
    bool help;
    bool version;
    struct sp_mount_list images;
    char *labels; /* what the images were asked for; part of argv, NULL for none */
    char **command; /* ends with NULL; part of argv */
    size_t overlay_count;
    struct sp_mount_list overlays[MAX_OVERLAYS]; /* one for each `--overlay` */
};

extern const char usage_text[];

/* Parses the arguments into options of zeros, which are the defaults. `listener` hears each problem
 * of a mount list; `error` gets the first one. Fails with usage and what sp_mount_list_parse fails
 * with. Free the options in any case. */
int options_parse(char **argv, struct options *options, sp_problem_listener *listener,
                  struct sp_error *error);

/* Puts the overlays of all options into one list, in their order; its texts are the options'. */
int options_overlays(const struct options *options, struct sp_mount_list *list,
                     struct sp_error *error);

void options_free(struct options *options);

#endif
