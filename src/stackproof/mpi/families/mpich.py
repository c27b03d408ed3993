"""MPICH as its developers release it."""

from __future__ import annotations

import re

from stackproof.core.command import EnvPatch
from stackproof.mpi.families import versions
from stackproof.mpi.requirement import Requirement

_VERSION = re.compile(r"MPICH Version:\s*(\d[\w.]*)")


class Mpich:
    """MPICH; its wheel finds everything relative to its own libraries."""

    name = "mpich"
    title = "MPICH"
    abi = "mpich"
    launcher = "hydra"
    compiler = "mpicc"

    def wheels(self, version: str | None) -> tuple[Requirement, ...]:
        """Return the one distribution that holds everything."""
        return (Requirement(name="mpich", specifier=versions.specifier(version)),)

    def environment(self, prefix: str) -> EnvPatch:
        """Return the search paths, with libfabric's plug-ins taken from the tree.

        `LD_LIBRARY_PATH` beats the run path of a program, so that programs compiled for another
        family of the same ABI get this library.
        """
        return EnvPatch(
            set={"FI_PROVIDER_PATH": f"{prefix}/lib/mpich/libfabric"},
            prepend={"PATH": (f"{prefix}/bin",), "LD_LIBRARY_PATH": (f"{prefix}/lib",)},
        )

    def identify(self, library_version: str) -> str | None:
        """Return the version in `MPICH Version: 5.0.2 …`."""
        match = _VERSION.match(library_version.lstrip())
        return match[1] if match else None
