"""What a chain from source is asked to hold."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from stackproof.core.value import Value


class Gpu(StrEnum):
    """For which accelerators a chain is built."""

    NONE = "none"
    CUDA = "cuda"
    ROCM = "rocm"


class Compilers(Value, kw_only=False):
    """The names of the compilers of a maker; without `prefix` they need one in the recipe."""

    c: str
    cxx: str
    fortran: str
    on_path: bool = False


COMPILERS: Mapping[str, Compilers] = {
    "clang": Compilers("clang", "clang++", "gfortran", on_path=True),
    "aocc": Compilers("clang", "clang++", "flang"),
    "cce": Compilers("craycc", "crayCC", "crayftn"),
    "nvhpc": Compilers("nvc", "nvc++", "nvfortran"),
}
"""Compilers of the machine besides gcc, used without a module and with the components' own flags.

LLVM's clang has no Fortran on Debian 12, so gfortran goes with it. Sources: AOCC user guide
(docs.amd.com, 57222), "Using the compiler"; CCE's man pages `craycc`, `crayCC` and `crayftn`
(cpe.ext.hpe.com); NVIDIA HPC Compilers User's Guide (docs.nvidia.com/hpc-sdk).
"""


class Toolchain(Value):
    """The compiler of a chain.

    `system` is the compiler that PATH finds, without a module. `SystemCompilerGCC` wraps that
    compiler, whose `version` must then be given, into a module `GCC/VERSION` of the chain, which
    brings EasyBuild's flags with it. `GCC` and `GCCcore` are modules that are there already, as on
    top of EESSI. The names of `COMPILERS` are compilers in `prefix`/bin, or on PATH.
    """

    name: str = "system"
    version: str = ""
    prefix: str = ""

    @property
    def compilers(self) -> Compilers | None:
        """Return the compilers in the place of the system's gcc, None where that compiles."""
        return COMPILERS.get(self.name)


class ExternalComponent(Value):
    """A component that the machine has: where, and by which module it is loaded (if any)."""

    version: str
    prefix: str
    module: str = ""


class OwnFile(Value):
    """A file that a recipe brings: by its digest, and for a source where it may be downloaded."""

    filename: str
    sha256: str
    address: str = ""


class OwnPatch(OwnFile):
    """A patch that a recipe brings; `mends` are ids of known conflicts that it takes away."""

    mends: tuple[str, ...] = ()


class ChainRequest(Value):
    """What a chain is asked to hold.

    `mpi` is name and version (`openmpi`, `mpich`), None for a network stack alone. `shs` is the
    release of HPE's Slingshot host software (`13.0.0`) that the provider cxi is built against.
    `gpu_at` says where CUDA or ROCm is; `externals` are other components that the machine has, by
    the catalogue's names. `versions` are wishes for components that come as needs of others.
    `origins` are the kinds of source files to take, the best first: `upstream` for what a project
    publishes, `debian-SUITE` for the operating system's source packages.

    With `bundled` an MPI builds its own copies of what it brings along (Open MPI: hwloc, libevent,
    PMIx, PRRTE); `bundled_parts` names some of them instead. `ucx` and `ucc` are built under the
    MPI. `options` are given to a component's configure script, the last. `libcxi_tools` builds
    libcxi with its diagnostic programs, and what those need. `accept` are ids of known conflicts
    that do not matter. `source_files` take the place of what the catalogue names, `patches` change
    what was unpacked; both by the catalogue's names.
    """

    libfabric: str
    providers: tuple[str, ...]
    mpi: tuple[str, str] | None = None
    gpu: Gpu = Gpu.NONE
    gpu_at: ExternalComponent | None = None
    toolchain: Toolchain = Toolchain()
    xpmem: bool = False
    shs: str = ""
    externals: Mapping[str, ExternalComponent] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ("upstream",)
    bundled: bool = False
    libcxi_tools: bool = False
    accept: tuple[str, ...] = ()
    source_files: Mapping[str, OwnFile] = field(default_factory=dict)
    patches: Mapping[str, tuple[OwnPatch, ...]] = field(default_factory=dict)
    bundled_parts: tuple[str, ...] = ()
    ucx: bool = False
    ucc: bool = False
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
