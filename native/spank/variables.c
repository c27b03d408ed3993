#include "variables.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
    "ACLOCAL_PATH", "CC", "CFLAGS", "CMAKE_PREFIX_PATH", "CPATH", "CPLUS_INCLUDE_PATH",
    "CPPFLAGS", "CUBLAS_WORKSPACE_CONFIG", "CXX", "CXXFLAGS", "C_INCLUDE_PATH", "F77", "F90",
    "FC", "FCFLAGS", "FFLAGS", "INFOPATH", "JULIA_NUM_THREADS", "LDFLAGS", "LD_LIBRARY_PATH",
    "LIBRARY_PATH", "MANPATH", "MODULEPATH", "MPICC", "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NVIDIA_TF32_OVERRIDE", "OBJC_INCLUDE_PATH", "PATH", "PETSC_ARCH",
    "PKG_CONFIG_PATH", "PYTHONPATH", "SLURM_MPI_TYPE",
};

static const char *const families[] = {
    "ACC_", "BLIS_", "CRAYPE_", "CRAY_", "CUDA_", "CXI_", "EBROOT", "EBVERSION", "FI_",
    "GASNET_", "GOMP_", "GTL_", "HCOLL_", "HDF5_USE_", "HIP_", "HSA_", "HWLOC_", "HYDRA_",
    "IBV_", "I_MPI_", "KMP_", "KOKKOS_", "LIBFABRIC_", "MKL_", "MPICH_", "MPIEXEC_", "MPIR_",
    "MPIX_", "MPI_", "MV2_", "MXM_", "NCCL_", "NVSHMEM_", "OFI_", "OMPI_", "OMP_", "OPAL_",
    "OPENBLAS_", "OSHMEM_", "PALS_", "PE_", "PMIX_", "PMI_", "PRTE_", "PSM2_", "PSM3_", "RCCL_",
    "RDMAV_", "ROCM_", "ROCR_", "SHARP_", "SHMEM_", "UCC_", "UCX_", "UENV_SPACK_", "UTOFU_",
    "XPMEM_", "ZES_", "ZE_",
};

/* Of a family: programs that are started, libraries that are loaded, files that are written to. */
static const char *const steering[] = {
    "_AGENT", "_EXEC", "_FILE", "_INJECTION64_PATH", "_LIBRARIES", "_OUTPUT", "_PLUGINS_PATH",
    "_TOOLS_LIB", "_VERBOSE_INIT", "_agent",
};

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name);
    size_t most = strlen(end);
    return length >= most && strcmp(name + length - most, end) == 0;
}

static bool is_steering(const char *name)
{
    for (size_t number = 0; number < sizeof steering / sizeof steering[0]; number++) {
        if (ends_with(name, steering[number])) {
            return true;
        }
    }
    return false;
}

bool variables_has(const char *name)
{
    for (size_t number = 0; number < sizeof names / sizeof names[0]; number++) {
        if (strcmp(name, names[number]) == 0) {
            return true;
        }
    }
    for (size_t number = 0; number < sizeof families / sizeof families[0]; number++) {
        if (strncmp(name, families[number], strlen(families[number])) == 0) {
            return !is_steering(name);
        }
    }
    return false;
}
