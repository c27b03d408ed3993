#include "mpiabi.h"

#include <string.h>

const char *sp_abi_of(struct sp_elf *elf)
{
    static const char *const mpich[] = {"MPIR_F08_MPI_STATUS_IGNORE_OBJ", "MPII_Win_get_attr",
                                        "MPII_Comm_get_attr", "QMPI_Context_create"};
    char name[SP_ELF_NAME] = "";
    if (!sp_elf_exports(elf, "MPI_Init")) {
        return "unknown";
    }
    if (sp_elf_exports(elf, "ompi_mpi_comm_world") || sp_elf_needs(elf, "libopen_mpi.so")) {
        return "openmpi";
    }
    if (sp_elf_soname(elf, name) && strncmp(name, "libmpi_abi.so", 13) == 0 &&
        sp_elf_exports(elf, "MPI_Abi_get_version")) {
        return "standard";
    }
    for (size_t index = 0; index < sizeof mpich / sizeof mpich[0]; index++) {
        if (sp_elf_exports(elf, mpich[index])) {
            return "mpich";
        }
    }
    return "unknown";
}
