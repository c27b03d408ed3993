"""The variables that views may set: search paths, compilers, and what MPIs and their parts read.

Beside these, names of places (`…_ROOT`, `…_DIR`) may hold paths of their own image. Any other needs
the user's word: a shell obeys some variables at its next prompt, and programs outside of the image
obey others. `native/spank/variables.c` has the tables too.
"""

from __future__ import annotations

from stackproof.core import mountlist

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from stackproof.image.described import Described, DescribedView
    from stackproof.image.model import Image, View

    AnyView = View | DescribedView

ALLOW = "STACKPROOF_ALLOW_VARIABLES"

# Where programs, compilers, build tools and modules look: what a view is for.
NAMES = frozenset({
    "ACLOCAL_PATH", "CC", "CFLAGS", "CMAKE_PREFIX_PATH", "CPATH", "CPLUS_INCLUDE_PATH",
    "CPPFLAGS", "CUBLAS_WORKSPACE_CONFIG", "CXX", "CXXFLAGS", "C_INCLUDE_PATH", "F77", "F90",
    "FC", "FCFLAGS", "FFLAGS", "INFOPATH", "JULIA_NUM_THREADS", "LDFLAGS", "LD_LIBRARY_PATH",
    "LIBRARY_PATH", "MANPATH", "MODULEPATH", "MPICC", "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NVIDIA_TF32_OVERRIDE", "OBJC_INCLUDE_PATH", "PATH", "PETSC_ARCH",
    "PKG_CONFIG_PATH", "PYTHONPATH", "SLURM_MPI_TYPE",
})  # fmt: skip
# What MPIs, their transports and launchers, threads, and the parts of GPUs read.
FAMILIES = (
    "ACC_", "BLIS_", "CRAYPE_", "CRAY_", "CUDA_", "CXI_", "EBROOT", "EBVERSION", "FI_",
    "GASNET_", "GOMP_", "GTL_", "HCOLL_", "HDF5_USE_", "HIP_", "HSA_", "HWLOC_", "HYDRA_",
    "IBV_", "I_MPI_", "KMP_", "KOKKOS_", "LIBFABRIC_", "MKL_", "MPICH_", "MPIEXEC_", "MPIR_",
    "MPIX_", "MPI_", "MV2_", "MXM_", "NCCL_", "NVSHMEM_", "OFI_", "OMPI_", "OMP_", "OPAL_",
    "OPENBLAS_", "OSHMEM_", "PALS_", "PE_", "PMIX_", "PMI_", "PRTE_", "PSM2_", "PSM3_", "RCCL_",
    "RDMAV_", "ROCM_", "ROCR_", "SHARP_", "SHMEM_", "UCC_", "UCX_", "UENV_SPACK_", "UTOFU_",
    "XPMEM_", "ZES_", "ZE_",
)  # fmt: skip
# Of a family: programs that are started, libraries that are loaded, and files that are written to.
STEERING = (
    "_AGENT", "_EXEC", "_FILE", "_INJECTION64_PATH", "_LIBRARIES", "_OUTPUT", "_PLUGINS_PATH",
    "_TOOLS_LIB", "_VERBOSE_INIT", "_agent",
)  # fmt: skip
_PLACES = ("_BIN", "_DIR", "_INC", "_INCLUDE", "_LIB", "_PREFIX", "_ROOT")
_OWN = frozenset({"ESMFMKFILE", "GI_TYPELIB_PATH", "JAVA_HOME", "QT_PLUGIN_PATH"})
# Programs outside of the image run code that lies there, or trust what does.
_OF_PROGRAMS = (
    "_", "AWS_", "BASH", "CARGO_", "CONDA", "CURL_", "DOCKER_", "FISH", "GCC_", "GIT_", "GNUPG",
    "KRB5", "LD_", "LESS", "LMOD_", "MODULES_", "NODE_", "NPM_", "NVM_", "OPENSSL_", "PIP_",
    "PYENV_", "RBENV_", "SALLOC_", "SBATCH_", "SLURM_", "SPANK_", "SRUN_", "SSH_", "SSL_",
    "STACKPROOF_", "SUDO_", "TERMINFO", "TMUX_", "UENV_", "XDG_", "ZSH",
)  # fmt: skip


def is_listed(name: str) -> bool:
    """Return true for a variable that any view may change in any way."""
    return name in NAMES or (name.startswith(FAMILIES) and not name.endswith(STEERING))


def list_foreign(image: Image | Described, view: AnyView) -> list[str]:
    """Return the variables of a view, sorted, that it may change only with the user's word."""
    change = view.env
    values = {name: [text] for name, text in change.set.items()}
    for part in (change.prepend, change.append):
        for name, entries in part.items():
            values.setdefault(name, []).extend(entries)
    place = "" if mountlist.bad_mount_point(image.mount) else image.mount.rstrip("/") + "/"
    return sorted(
        name
        for name in {*values, *change.unset}
        if not is_listed(name)
        and not (name not in change.unset and place and _is_own(name, values[name], place))
    )


def _is_own(name: str, values: Sequence[str], place: str) -> bool:
    """Return true for paths below a place, in a variable that says where something is."""
    is_place = name.endswith(_PLACES) and name.isupper() and not name.startswith(_OF_PROGRAMS)
    if not (is_place or name in _OWN or name.startswith(FAMILIES)):
        return False
    paths = [path for text in values for path in text.split(":") if path]
    return bool(paths) and all(
        path.startswith(place) and ".." not in path.split("/") and "${@" not in path
        for path in paths
    )


def read_permitted(environment: Mapping[str, str], names: Sequence[str] = ()) -> frozenset[str]:
    """Return the variables that the user, or the site's profile, lets views change.

    `names` are those of `--allow-variable`, each with commas between several.
    """
    texts = (*names, environment.get(ALLOW, ""))
    return frozenset(name for text in texts for name in text.split(",") if name)


def require_permission(
    images: Sequence[Image | Described], views: Sequence[AnyView], permitted: Collection[str]
) -> None:
    """Raise `StackproofError` (NOT_PERMITTED) for variables that views may not change."""
    foreign = list(dict.fromkeys(_refused(images, views, permitted)))
    if not foreign:
        return
    from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - slow, and for failures alone

    names = sorted({name for name, _ in foreign})
    raise fail(
        Reason.NOT_PERMITTED,
        f"a view of `{foreign[0][1]}` changes what programs outside of the image may obey: "
        f"`{'`, `'.join(names)}`",
        hint=f"if that is right: export {ALLOW}={','.join(names)}, or `--allow-variable` of "
        "`stackproof`; `--no-view` (srun: --view=none) leaves views out",
    )


def _refused(
    images: Sequence[Image | Described], views: Sequence[AnyView], permitted: Collection[str]
) -> Iterator[tuple[str, str]]:
    for image in images:
        for view in image.views.values():
            if any(view is chosen for chosen in views):
                for name in list_foreign(image, view):
                    if name not in permitted:
                        yield name, image.path
