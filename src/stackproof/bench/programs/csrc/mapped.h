/* Which libraries and which shared memory a rank has mapped. */
#ifndef STACKPROOF_MAPPED_H
#define STACKPROOF_MAPPED_H

#include "emit.h"

/* Return whether a file is mapped whose name begins so. */
bool mapped_has(const char *beginning);
/* Append the libraries that carry messages, with their build-ids, and the shared memory. */
void mapped_describe(struct text *members);

#endif
