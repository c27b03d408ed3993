/* Which ABI a library of MPI has: what it exports tells. */
#ifndef STACKPROOF_MPIABI_H
#define STACKPROOF_MPIABI_H

#include "elfread.h"

/* Returns `mpich`, `openmpi`, `standard` or `unknown`, by what no link and no name can give a file:
 * the marks of src/stackproof/abi. */
const char *sp_abi_of(struct sp_elf *elf);

#endif
