"""libfabric alone to what an override folder gets: the programs' own MPI, asking for it first.

EESSI's MPI has a DT_RPATH of its own, which leads to EESSI's libfabric before the override folder
of the program is looked into: a libfabric there is asked for by nobody. What the program itself
asks for is the main library of the MPI. So that this one is copied, unchanged but for one name more
that it needs and one folder more in front of those where it looks; libfabric is then loaded at the
start, and whoever asks for that name later, a plug-in as well, is given it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.inject.delivery import Copied, Delivery
from stackproof.inject.eessi import PRIVATE, beside, check, gather, take_plugins
from stackproof.inject.replacement import Replacement
from stackproof.linking.loader import (
    Closure,
    FileView,
    LoaderSettings,
    Machine,
    MappedObject,
    load_program,
)
from stackproof.mpi import abi

NAME = "libfabric.so.1"
FOLDER = "lib/fabric"
"""The folder of an override that holds libfabric, and nothing that a program asks for itself."""


def find_fabric(view: FileView, replacement: Replacement, machine: Machine) -> str:
    """Return the path of the libfabric of a prefix; raises `StackproofError` (NO_MPI)."""
    if NAME in replacement.names:
        return replacement.names[NAME]
    for main in replacement.mains:
        closure = load_program(view, main.path, machine=machine, setting=LoaderSettings())
        found = closure.named(NAME)
        if found is not None and found.path.startswith(f"{replacement.prefix}/"):
            return found.path
    raise fail(
        Reason.NO_MPI,
        f"there is no `{NAME}` in `{replacement.prefix}`",
        where=Location(file=replacement.prefix),
        hint="name the prefix that has `lib/libfabric.so.1`",
    )


def main_of(closures: Mapping[str, Closure]) -> MappedObject:
    """Return the main library of the MPI that programs load today, which must be one for all.

    Raises `StackproofError`: NO_MPI, INJECTION_FAILS for programs of two releases.
    """
    found: dict[object, tuple[str, MappedObject]] = {}
    problems = []
    for program, closure in closures.items():
        own = next((one for one in closure.objects[1:] if abi.family_of(one.elf)), None)
        if own is None:
            problems.append(_problem(Reason.NO_MPI, "it loads no MPI", program))
        else:
            found.setdefault(own.file.identity, (program, own))
    if len(found) > 1:
        problems += [
            _problem(
                Reason.INJECTION_FAILS,
                f"it has `{own.path}`, and an override folder has one MPI for all programs",
                program,
            )
            for program, own in found.values()
        ]
    if problems:
        raise StackproofError(*problems)
    return next(iter(found.values()))[1]


def plan_fabric(
    view: FileView, path: str, main: MappedObject, machine: Machine, carried: str
) -> Delivery:
    """Return what an override folder gets for the libfabric at a path; `carried` is that folder.

    Raises `StackproofError` (INJECTION_FAILS) with all that is in the way.
    """
    got = gather(view, (path,), (), machine)
    own = got.found[next(name for name in got.found if name.startswith("libfabric."))]
    wanted = [
        (source, f"{FOLDER}/{PRIVATE}/libfabric/{posixpath.basename(source)}", "$ORIGIN/..")
        for source, _, _ in beside(view, {NAME: own})
    ]
    plugins, without = take_plugins(view, wanted, got, machine)
    check(got)
    copies = [Copied(source=own.file.path, target=f"{FOLDER}/{NAME}", rpath=f"$ORIGIN/{PRIVATE}")]
    copies += [
        Copied(source=one.file.path, target=f"{FOLDER}/{PRIVATE}/{soname}", rpath="$ORIGIN")
        for soname, one in got.found.items()
        if one is not own
    ]
    name = main.soname
    looks = ":".join(("$ORIGIN/fabric", *_own_folders(main)))
    copies.append(Copied(source=main.file.path, target=f"lib/{name}", rpath=looks, asks=NAME))
    provider = f"{carried}/{FOLDER}/{PRIVATE}/libfabric"
    return Delivery(
        copies=tuple(sorted((*copies, *plugins), key=lambda one: one.target)),
        links={"lib64": "lib"},
        left=tuple(sorted(got.left)),
        environment={"FI_PROVIDER_PATH": provider} if plugins else {},
        without=without,
    )


def _own_folders(main: MappedObject) -> Sequence[str]:
    """Return where a library looks for what it needs, whatever folder its copy lies in."""
    origin = posixpath.dirname(main.path)
    text = main.elf.rpath if main.elf.runpath is None else main.elf.runpath
    words = (text or "").replace("${ORIGIN}", origin).replace("$ORIGIN", origin).split(":")
    return [word for word in (*words, origin) if word]


def _problem(reason: Reason, message: str, program: str) -> Problem:
    hint = "name programs that were built with one release of one MPI"
    return Problem(reason=reason, message=message, where=Location(file=program), hint=hint)
