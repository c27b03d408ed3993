/* What is told to the user and to Slurm's logs. */
#ifndef STACKPROOF_SPANK_REPORT_H
#define STACKPROOF_SPANK_REPORT_H

#include "../core/error.h"

/* Tells a problem, and what to do about it if that is known. */
void report_error(const struct sp_error *error);

/* Passes on a line of another program of ours, which says by itself whether it is an error. */
void report_line(const char *line);

#endif
