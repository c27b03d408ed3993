"""Intel MPI: a proprietary MPI of the MPICH ABI."""

from __future__ import annotations

import re

from stackproof.core.command import EnvPatch
from stackproof.mpi.families import versions
from stackproof.mpi.requirement import Requirement

# The newest whose wheels can be installed alone: 2021.19.0 requires a distribution `libfabric`
# of version 2.6 or later (metadata of impi-rt 2021.19.0), which no package index offers.
DEFAULT_VERSION = "2021.18.1"
_VERSION = re.compile(r"Intel\(R\) MPI Library (\d{4}[\w.]*)")


class IntelMpi:
    """Intel MPI; runtime and headers are two distributions of one version."""

    name = "intel-mpi"
    title = "Intel MPI"
    abi = "mpich"
    launcher = "intel-hydra"
    compiler = "mpicc"

    def wheels(self, version: str | None) -> tuple[Requirement, ...]:
        """Return runtime and headers; `impi-devel` itself requires `impi-rt` of its version."""
        specifier = versions.specifier(version or DEFAULT_VERSION)
        return tuple(
            Requirement(name=name, specifier=specifier) for name in ("impi-rt", "impi-devel")
        )

    def environment(self, prefix: str) -> EnvPatch:
        """Return what the tree needs.

        `mpicc` and the launchers find the tree by `I_MPI_ROOT` and each other by `PATH`. The
        libfabric in `lib/` is found by `LD_LIBRARY_PATH` and its providers (plug-ins beside it)
        by `FI_PROVIDER_PATH`; without both, MPI_Init fails as soon as a network is needed.
        """
        return EnvPatch(
            set={"I_MPI_ROOT": prefix, "FI_PROVIDER_PATH": f"{prefix}/lib"},
            prepend={"PATH": (f"{prefix}/bin",), "LD_LIBRARY_PATH": (f"{prefix}/lib",)},
        )

    def identify(self, library_version: str) -> str | None:
        """Return the version in `Intel(R) MPI Library 2021.18.1 for Linux* OS`."""
        match = _VERSION.match(library_version.lstrip())
        return match[1] if match else None
