"""HPE Cray MPICH: the vendor's MPI on Slingshot machines; it comes with the machine only."""

from __future__ import annotations

import re

from stackproof.core.command import EnvPatch
from stackproof.mpi.requirement import Requirement

_VERSION = re.compile(r"MPI VERSION\s*:\s*CRAY MPICH version (\d[\w.]*)")


class CrayMpich:
    """Cray MPICH; started by the site's own launcher, never obtained from a package index."""

    name = "cray-mpich"
    title = "HPE Cray MPICH"
    abi = "mpich"
    launcher = "srun"
    compiler = "mpicc"

    def wheels(self, version: str | None) -> tuple[Requirement, ...]:
        """Return nothing: there is no wheel of Cray MPICH, whatever the version."""
        del version
        return ()

    def environment(self, prefix: str) -> EnvPatch:
        """Return the search paths; `prefix` is `…/mpich/VERSION/ofi/COMPILER/VERSION`."""
        return EnvPatch(prepend={"PATH": (f"{prefix}/bin",), "LD_LIBRARY_PATH": (f"{prefix}/lib",)})

    def identify(self, library_version: str) -> str | None:
        """Return the version in `MPI VERSION    : CRAY MPICH version 8.1.28.2 (ANL base 3.4a2)`.

        Source of the form: output of `MPI.versioninfo()` (Julia) and `mpi4py --mpi-lib-version`
        on Cray EX machines, as users' public documentation shows it.
        """
        match = _VERSION.match(library_version.lstrip())
        return match[1] if match else None
