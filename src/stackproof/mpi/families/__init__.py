"""MPI families: a folder for each, with all that is known of it; other rooms ask by its name.

A family is the implementation, not a version of it. Its folder has a record of facts; a new family
is such a folder and a line in the registry.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from stackproof.core import registry
from stackproof.mpi.families.cray_mpich import CRAY_MPICH
from stackproof.mpi.families.intel_mpi import INTEL_MPI
from stackproof.mpi.families.mpich import MPICH
from stackproof.mpi.families.mvapich import MVAPICH
from stackproof.mpi.families.openmpi import OPENMPI
from stackproof.mpi.families.record import LibraryMarks, MpiFamily

if TYPE_CHECKING:
    from stackproof.mpi.path_logs import Probe

__all__ = [
    "REGISTRY", "MpiFamily", "abi_of", "by_likeness", "get", "identify", "maker_of", "of_library",
    "pmi_of", "probe_of", "same_release",
]  # fmt: skip


REGISTRY: dict[str, MpiFamily] = {
    family.name: family for family in (OPENMPI, MPICH, INTEL_MPI, CRAY_MPICH, MVAPICH)
}


_BASES = frozenset(family.made_of for family in REGISTRY.values())


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


def abi_of(family: str, version: str | None) -> str:
    """Return the ABI of a release of a family; without a release, that of those before a change."""
    return REGISTRY[family].abi_of(version)


def pmi_of(family: str, launcher: str) -> str | None:
    """Return the interface that a family's ranks need of a launcher, None for its default."""
    known = REGISTRY.get(family)
    return known.pmi.get(launcher) if known else None


def probe_of(family: str) -> Probe | None:
    """Return the reader of a family's words on its paths, None for one without; loads it."""
    known = REGISTRY.get(family)
    if not known or not known.evidence:
        return None
    probe: Probe = importlib.import_module(known.evidence).PROBE
    return probe


def by_likeness() -> tuple[MpiFamily, ...]:
    """Return all families, those made of another one first, those that others are made of last.

    Whoever looks for words takes the first that fits: MPICH's stand in what is made of it, too.
    """
    return tuple(
        sorted(
            REGISTRY.values(),
            key=lambda family: (family.name in _BASES, not family.made_of, family.name),
        )
    )


def of_library(names: Collection[str], path: str, content: Callable[[], bytes]) -> str:
    """Return the family of a main library, by the names of what is loaded with it.

    `path` is where it lies, and `content` gives its bytes, which are asked for last; raises what
    that raises. What has no marks of its own is the family that others are made of.
    """
    marks = {family.name: family.marks for family in by_likeness()}
    for name, mark in marks.items():
        if mark.beside and any(other.startswith(mark.beside) for other in names):
            return name
    for name, mark in marks.items():
        if mark.path is not None and mark.path.match(path):
            return name
    held = content()
    for name, mark in marks.items():
        if mark.word and mark.word in held:
            return name
    return next(name for name, mark in reversed(marks.items()) if mark == LibraryMarks())


def maker_of(abi: str, release: str, words: Collection[str]) -> tuple[str, bool]:
    """Return the family whose main library says a release, and has words in its constants.

    True says that a word of its own told it. One of the MPICH ABI has many makers; the standard's
    libraries are of the same.
    """
    made = [one for one in by_likeness() if one.abi == abi] or [
        one for one in by_likeness() if one.made_of or one.name in _BASES
    ]
    for one in made:
        if one.marks.maker and one.marks.maker in words:
            return one.name, True
    for one in made:
        if one.marks.release and release.startswith(one.marks.release):
            return one.name, False
    return made[-1].name, False


def same_release(version: str, wanted: str) -> bool:
    """Return whether two versions agree as far as both are told (`5.0.11` is a `5.0`).

    Intel MPI's library of release 2021.17.2 says 2021.17, so the shorter one may be either. A
    wheel's rebuild (`5.0.1.post1` of `5.0.1`) counts as the same.
    """
    pairs = zip(_POST.sub("", version).split("."), _POST.sub("", wanted).split("."), strict=False)
    return all(one == other for one, other in pairs)


_POST = re.compile(r"\.post\d+$")
