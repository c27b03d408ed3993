/* Records that every program of this folder tells alike. */
#ifndef STACKPROOF_TELL_H
#define STACKPROOF_TELL_H

#include "evidence.h"

struct job;

/* Append what a `start` record begins with: program, MPI and the number of ranks. */
void tell_world(struct text *members, int ranks);
/* Append the member `clock` of a `start` record. */
void tell_clock(struct text *members);
/* Tell why nothing, or nothing more, is measured: a record, and a line on standard error. */
void tell_error(const char *reason, const char *message);
/* Give rank 0 every rank's facts, one record each, in rank order; `more` are further members of
 * this rank's, NULL for none. Every rank calls it. */
void tell_ranks(const struct job *job, const struct evidence *before, const struct text *more);
/* Tell that all was told, and how many errors were found. */
void tell_end(uint64_t errors);

#endif
