/* Where a rank's message buffers lie: in memory of the host, or of a GPU.
 *
 * A GPU is reached through its driver's own library, found when the program runs, so that one
 * program serves every machine and no toolkit is needed to compile it. What a GPU holds is written
 * and read by copies alone; nothing here takes a GPU's address for one of the host.
 */
#ifndef STACKPROOF_MEMORY_H
#define STACKPROOF_MEMORY_H

#include "emit.h"

enum memory_kind { MEMORY_HOST, MEMORY_CUDA, MEMORY_ROCM, MEMORY_KINDS };

/* What the MPI says of buffers of this kind when it is asked. */
enum memory_aware { AWARE_UNKNOWN, AWARE_NO, AWARE_YES, AWARE_BY_UCX };

extern const char *const memory_names[MEMORY_KINDS];

/* Take a GPU for this rank; what goes wrong is kept until `memory_agree`. */
void memory_open(int kind);
/* After MPI_Init: ask the MPI, and let all ranks know of the first that cannot go on. Every rank
 * calls it; returns false, with why, where one cannot. */
bool memory_agree(const char **reason, const char **message);
/* Return whether only point-to-point messages can be sent from here. */
bool memory_no_collectives(void);

/* Return `bytes` bytes that were written and read once, NULL where there are none; the reason is
 * told by the next `memory_agree`. */
char *memory_allocate(size_t bytes);
void memory_release(char *block);
/* Copy to and from what `memory_allocate` gave; a copy that fails ends all ranks. */
void memory_put(char *to, const char *from, size_t bytes);
/* Return `bytes` bytes at `at` where the host can read them: there, or copied to `room`. */
const char *memory_view(const char *at, char *room, size_t bytes);

/* Append the member `memory` of a `rank` record. */
void memory_describe(struct text *members);

#endif
