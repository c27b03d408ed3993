"""MPI families: what to obtain, what a tree of one needs to run, how to recognise its library.

A family is the implementation, not a version of it. Members are pure: they return requirements,
environment patches and answers.
"""

from __future__ import annotations

import re
from typing import Protocol

from stackproof.core import registry
from stackproof.core.command import EnvPatch
from stackproof.mpi.families.cray_mpich import CrayMpich
from stackproof.mpi.families.intel_mpi import IntelMpi
from stackproof.mpi.families.mpich import Mpich
from stackproof.mpi.families.openmpi import OpenMpi
from stackproof.mpi.requirement import Requirement


class MpiFamily(Protocol):
    """One MPI implementation.

    `abi` is the binary interface (`mpich` or `openmpi`): a program runs on every family of the ABI
    it was compiled for. `launcher` is a name in `stackproof.launch.launchers`, `compiler` the name
    of the C wrapper in `bin/`.
    """

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    @property
    def title(self) -> str:
        """Return the name as its makers write it."""

    @property
    def abi(self) -> str:
        """Return the ABI family."""

    @property
    def launcher(self) -> str:
        """Return the name of its own launcher in `stackproof.launch.launchers`."""

    @property
    def compiler(self) -> str:
        """Return the file name of the C compiler wrapper in `bin/`."""

    def wheels(self, version: str | None) -> tuple[Requirement, ...]:
        """Return the distributions to obtain; empty when there is no wheel of this family.

        `version` is exact (`5.0.11`) or a prefix (`5.0`), None for the family's default. Raises
        `StackproofError` (INVALID_VALUE) when it is not a version.
        """

    def environment(self, prefix: str) -> EnvPatch:
        """Return what a tree installed at `prefix` needs to compile and to run there."""

    def identify(self, library_version: str) -> str | None:
        """Return the version when this family printed the text, else None.

        The text is what `MPI_Get_library_version` gives.
        """


REGISTRY: dict[str, MpiFamily] = {
    family.name: family for family in (OpenMpi(), Mpich(), IntelMpi(), CrayMpich())
}


def get(name: str) -> MpiFamily:
    """Return a family by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="MPI family", kinds="families")


def identify(library_version: str) -> tuple[str, str] | None:
    """Return family and version of the MPI that printed `library_version`, None if unknown."""
    for family in REGISTRY.values():
        version = family.identify(library_version)
        if version is not None:
            return family.name, version
    return None


NEW_OPENMPI_ABI = 6
"""From this release on Open MPI's library has another soname."""


def abi_of(family: str, version: str | None) -> str:
    """Return the ABI of an MPI; where no release of Open MPI is said, it is one before 6."""
    abi = REGISTRY[family].abi
    first = (version or "").partition(".")[0]
    new = family == "openmpi" and first.isdigit() and int(first) >= NEW_OPENMPI_ABI
    return f"{abi}-{NEW_OPENMPI_ABI}" if new else abi


def same_release(version: str, wanted: str) -> bool:
    """Return whether two versions agree as far as both are told (`5.0.11` is a `5.0`).

    Intel MPI's library of release 2021.17.2 says 2021.17, so the shorter one may be either. A
    wheel's rebuild (`5.0.1.post1` of `5.0.1`) counts as the same.
    """
    pairs = zip(_POST.sub("", version).split("."), _POST.sub("", wanted).split("."), strict=False)
    return all(one == other for one, other in pairs)


_POST = re.compile(r"\.post\d+$")
