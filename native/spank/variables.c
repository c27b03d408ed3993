#include "variables.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
    "ACLOCAL_PATH", "CC", "CFLAGS", "CMAKE_PREFIX_PATH", "CPATH", "CPLUS_INCLUDE_PATH",
    "CPPFLAGS", "CXX", "CXXFLAGS", "C_INCLUDE_PATH", "F77", "FC", "FCFLAGS", "FFLAGS",
    "INFOPATH", "LDFLAGS", "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH", "MODULEPATH",
    "OBJC_INCLUDE_PATH", "PATH", "PKG_CONFIG_PATH", "PYTHONPATH", "SLURM_MPI_TYPE",
};

static const char *const families[] = {
    "ACC_", "BLIS_", "CRAY_", "CRAYPE_", "CUDA_", "CXI_", "EBROOT", "EBVERSION", "FI_", "GOMP_",
    "GTL_", "HIP_", "HSA_", "HWLOC_", "HYDRA_", "I_MPI_", "KMP_", "LIBFABRIC_", "MKL_",
    "MPICH_", "MPIEXEC_", "MPIR_", "MPI_", "MPIX_", "MV2_", "NCCL_", "NVSHMEM_", "OFI_",
    "OMPI_", "OMP_", "OPAL_", "OPENBLAS_", "PALS_", "PE_", "PMIX_", "PMI_", "PRTE_", "PSM3_",
    "RCCL_", "RDMAV_", "ROCM_", "ROCR_", "SHMEM_", "UCC_", "UCX_", "UENV_", "UTOFU_", "XPMEM_",
    "ZES_", "ZE_",
};

bool variables_has(const char *name)
{
    for (size_t number = 0; number < sizeof names / sizeof names[0]; number++) {
        if (strcmp(name, names[number]) == 0) {
            return true;
        }
    }
    for (size_t number = 0; number < sizeof families / sizeof families[0]; number++) {
        if (strncmp(name, families[number], strlen(families[number])) == 0) {
            return true;
        }
    }
    return false;
}
