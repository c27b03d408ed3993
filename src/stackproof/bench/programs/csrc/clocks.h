/* What a rank tells of its clock. */
#ifndef STACKPROOF_CLOCKS_H
#define STACKPROOF_CLOCKS_H

#include "emit.h"

/* Append the member `clock` of a `rank` record: whether it is the clock of all ranks, how far it
 * was before rank 0's, by how much that changed, with the bounds of both, and by how much it
 * jumped: from the clock of its machine that nothing adjusts, or from rank 0's between two samples.
 */
void clocks_describe(struct text *members);

#endif
