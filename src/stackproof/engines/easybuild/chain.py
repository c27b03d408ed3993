"""What a stack is to hold, to easyconfigs in build order: the chain from the NIC to the benchmarks.

Pure: the catalogue of components says what each of them needs, `easyconfig.py` writes the texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stackproof.engines.easybuild.components import SourceFile


class Gpu(StrEnum):
    """For which accelerators a chain is built."""

    NONE = "none"
    CUDA = "cuda"
    ROCM = "rocm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What compiles.

    `system` is the compiler that PATH finds, without a module. `SystemCompilerGCC` wraps that
    compiler, whose `version` must then be given, into a module `GCC/VERSION` of the chain, which
    brings EasyBuild's flags with it. `GCC` and `GCCcore` are modules that are there already, as on
    top of EESSI.
    """

    name: str = "system"
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """A component that the machine has: where, and by which module it is loaded (if any)."""

    version: str
    prefix: str
    module: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRequest:
    """What a chain is asked to hold.

    `mpi` is name and version (`openmpi`, `mpich`), None for a network stack alone. `shs` is the
    release of HPE's Slingshot host software (`13.0.0`) that the provider cxi is built against.
    `gpu_at` says where CUDA or ROCm is; `externals` are other components that the machine has, by
    the catalogue's names. `versions` are wishes for components that come as needs of others.
    `origins` are the kinds of source files to take, the best first: `upstream` for what a project
    publishes, `debian-SUITE` for the operating system's source packages.
    """

    libfabric: str
    providers: tuple[str, ...]
    mpi: tuple[str, str] | None = None
    gpu: Gpu = Gpu.NONE
    gpu_at: External | None = None
    toolchain: Toolchain = Toolchain()
    xpmem: bool = False
    shs: str = ""
    externals: Mapping[str, External] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ("upstream",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Easyconfig:
    """One component as EasyBuild builds it.

    `component` is the catalogue's name, `name` EasyBuild's; `filename` is what EasyBuild expects
    the text in, `module` the full name of the module that it makes (`libfabric/2.1.0`). `needs`
    are the modules of this chain that it is built on.
    """

    component: str
    name: str
    version: str
    filename: str
    text: str
    module: str
    sources: tuple[SourceFile, ...] = ()
    needs: tuple[str, ...] = ()
    licence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A component that others build into such a chain, and why this one does not."""

    component: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Easyconfigs in build order, and what a user should know about them.

    `metadata` is the text of the file that `--external-modules-metadata` names, empty when no
    component of the machine has a module. `tools` are programs that builds run besides compiler
    and make (`autoreconf`).
    """

    easyconfigs: tuple[Easyconfig, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    metadata: str = ""
    tools: tuple[str, ...] = ()
