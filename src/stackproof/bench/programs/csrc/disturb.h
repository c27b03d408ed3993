/* What else this rank's processor did while something was timed. */
#ifndef STACKPROOF_DISTURB_H
#define STACKPROOF_DISTURB_H

#include "emit.h"

enum disturb_value { DISTURB_WALL, DISTURB_WAIT, DISTURB_SWITCHES, DISTURB_COUNT };

/* Counters when a timed part begins; after disturb_stop what they went up by: seconds that passed,
 * seconds ready to run while others had the processor (negative: unknown), involuntary switches. */
struct disturbance {
    double values[DISTURB_COUNT];
};

/* Note the counters of the launch; before the first timed part. */
void disturb_begin(void);
void disturb_start(struct disturbance *part);
void disturb_stop(struct disturbance *part);
/* Append the member `disturbance` of a `rank` record: sums over the timed parts, and of the whole
 * launch the share of the processor that others took, and its lowest frequency. */
void disturb_describe(struct text *members);
/* Append `disturbance` of one part: for each value the largest of all ranks. */
void disturb_describe_part(const struct disturbance *worst, struct text *members);

#endif
