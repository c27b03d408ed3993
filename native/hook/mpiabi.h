/* Which ABI a library of MPI has: what it exports tells, or the label of its image. */
#ifndef STACKPROOF_MPIABI_H
#define STACKPROOF_MPIABI_H

#include <stdbool.h>
#include <stddef.h>

#include "elfread.h"
#include "json.h"

/* Returns `mpich`, `openmpi`, `standard` or `unknown`, by what no link and no name can give a file:
 * the marks of src/stackproof/abi. */
const char *sp_abi_of(struct sp_elf *elf);

/* Writes the ABI that a label gives the library with a SONAME; false where it says nothing of it.
 */
bool sp_abi_in_label(struct sp_json label, const char *name, char *abi, size_t room);

#endif
