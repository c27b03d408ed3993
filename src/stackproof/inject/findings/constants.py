"""Whether program and library mean the same by constants of the standard ABI, and of Fortran's.

What a symbol is called says nothing of the values that are handed to it: a library that means
another thing by `MPI_SEEK_SET` runs, and reads the wrong bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.inject.findings.symbols import InjectionAttempt, release_before, release_injected
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.linking.loader import FileView, MappedObject
from stackproof.mpi.abi import constants
from stackproof.mpi.abi.constants import Group


def constant_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield the constants that a program of the standard ABI hands over with another meaning."""
    main = case.main
    if main is None or main.family.abi != "standard" or case.demand.abi != "standard":
        return
    own, new = release_before(case), release_injected(case)
    if own and own == new:
        return
    had, has = constants.edition_of(own), constants.edition_of(new)
    if had and had == has:
        return
    for group in constants.GROUPS:
        for user in case.demand.users:
            loaded = _loads(case.view, user, group)
            if loaded:
                yield _other_meaning(case, user, group, loaded, known=bool(had and has))


def _loads(view: FileView, user: MappedObject, group: Group) -> tuple[str, ...]:
    """Return the constants of a group that an object may hand over, by the standard's names."""
    if not any(entry.name in group.functions for entry in user.elf.imports):
        return ()
    try:
        values = view.traces(user.file).constants
    except StackproofError:
        return ()
    return tuple(name for name, value in group.standard.items() if value in values)


def _other_meaning(
    case: InjectionAttempt, user: MappedObject, group: Group, names: tuple[str, ...], *, known: bool
) -> Finding:
    main = case.main
    path = main.path if main else ""
    words = ", ".join(f"`{name}`" for name in group.standard)
    if known:
        message = f"`{path}` has other values for {words} than the MPI that it was built with"
        effect = Effect.FAILS
    else:
        message = (
            f"libraries of the standard ABI disagree on {words}, and it is not known which values "
            f"the program and `{path}` have"
        )
        effect = Effect.CANNOT_TELL
    return Finding(
        cause=Cause.CONSTANTS,
        effect=effect,
        message=message,
        file=user.path,
        provider=path,
        symbols=names,
        remedy="build the program with the header of the MPI that it runs with",
    )


def descriptor_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield Fortran 2008 procedures that take descriptors, where two MPIs may read them otherwise.

    Seen with gfortran's programs: Intel MPI 2021.18 ends in `cdesc_create_datatype`, 2021.19 runs.
    The MPICH ABI leaves the Fortran 2008 module out.
    """
    main = case.main
    if main is None or main.family.abi != "mpich":
        return
    own, new = _is_intel(release_before(case)), _is_intel(release_injected(case))
    for user in case.demand.users:
        names = [e.name for e in user.elf.imports if "_f08ts" in e.name or "_cdesc" in e.name]
        if names and own != new:
            yield Finding(
                cause=Cause.ABI_UNKNOWN,
                effect=Effect.CANNOT_TELL,
                message=f"it hands descriptors of Fortran arrays to {len(names)} procedures, and "
                "MPICH and Intel MPI may read another compiler's otherwise",
                file=user.path,
                provider=main.path,
                symbols=tuple(sorted(names)),
                remedy="try it: `inject prove`; or build it with the other MPI's `mpi_f08`",
            )


def _is_intel(release: str) -> bool:
    """Return whether a release is Intel's, which counts by years."""
    return release.startswith("20")
