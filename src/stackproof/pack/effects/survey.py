"""A tree at its mount point to what its programs and libraries load, from it and from here."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from msgspec import Struct, field

from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.inject.artefact import is_machines, is_rdma
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import Closure, LoaderSettings, Machine, load_program
from stackproof.mpi import abi
from stackproof.pack.model import C_LIBRARY, is_inside, is_loader


class Survey(Struct, kw_only=True):
    """What was seen; paths are those of the view, with the tree at its mount point.

    `elves` are all dynamic files of the tree, `folders` where each finds what it needs in the tree.
    `libraries` are files of this machine by the name that is asked for, `c_library` those that go
    with its loader, `spare` those for RDMA that programs start with: a machine has its own, with
    its drivers. `asked` are versions that programs and their libraries need of others, by name.
    `missing` maps names to a file that asks for them. `machine` is what it is all for.
    """

    elves: dict[str, ElfFile] = field(default_factory=dict)
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    c_library: dict[str, str] = field(default_factory=dict)
    spare: dict[str, str] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    machine: Machine = field(default_factory=this_machine)
    skipped: list[str] = field(default_factory=list)


def look_around(
    view: RootView,
    mount: str,
    library_path: Sequence[str],
    *,
    has_mpi: bool,
    architecture: str = "",
) -> Survey:
    """Return what the dynamic files below a mount point load; raises what reading them raises.

    They are for this machine, or for another `architecture`: what is in the tree of any other is
    left alone. A machine may have the C library of another architecture besides its own.

    Where the tree `has_mpi`, what asks for another one is left without it: a variant of a module,
    which nothing loads here.
    """
    survey = Survey()
    if architecture not in {"", survey.machine.architecture}:
        survey.machine = Machine(architecture=architecture)
    setting = LoaderSettings(library_path=tuple(library_path))
    machine = survey.machine
    for path in view.elf_files(mount):
        file = view.look(path)
        elf = view.elf(file) if file else None
        if elf is None or not elf.dynamic:
            continue
        if elf.machine != machine.architecture or elf.bits != 64:
            survey.skipped.append(path)
            continue
        survey.elves[path] = elf
        closure = load_program(view, path, machine=machine, setting=setting)
        other = [one.path for one in closure.objects[1:] if has_mpi and _is_other(one.path, mount)]
        if other:
            survey.missing.setdefault(posixpath.basename(other[0]), path)
            continue
        for loaded in closure.objects[1:]:
            if not is_inside(loaded.path, mount):
                for name in sorted(loaded.names):
                    _carry(survey, posixpath.basename(name), loaded.path)
        _spare(survey, mount, closure)
        for edge in closure.missing:
            survey.missing.setdefault(edge.name, closure.objects[edge.by].path)
        direct = [closure.objects[edge.to].path for edge in closure.needs_of(0) if edge.to]
        inside = [posixpath.normpath(one) for one in direct if is_inside(one, mount)]
        survey.folders[path] = tuple(dict.fromkeys(map(posixpath.dirname, inside)))
    return survey


def _is_other(path: str, mount: str) -> bool:
    """Return whether a path is the main library of an MPI of this machine."""
    promise = abi.abi_of_name(posixpath.basename(path))
    outside = not is_inside(path, mount)
    return outside and promise is not None and promise[1] is abi.LibraryRole.MAIN


def _spare(survey: Survey, mount: str, closure: Closure) -> None:
    """Note the libraries for RDMA that a program does not start without.

    A plug-in that lacks them is passed over: for its sake no machine is to give up its own, with
    the drivers that fit these.
    """
    if not closure.objects[0].elf.interpreter:
        return
    for loaded in closure.objects:
        for name in map(posixpath.basename, loaded.names):
            if is_rdma(name) and not is_inside(loaded.path, mount):
                survey.spare.setdefault(name, loaded.path)
        for need in loaded.elf.version_needs:
            if not (need.weak or is_rdma(loaded.path)):
                survey.asked.setdefault(need.library, set()).add(need.name)


def _carry(survey: Survey, name: str, path: str) -> None:
    """Take a library of this machine along, unless it goes with the driver of its kernel."""
    if C_LIBRARY.fullmatch(name):
        survey.c_library.setdefault(name, path)
    if name.startswith("libgcc_s.") or not (C_LIBRARY.fullmatch(name) or is_machines(name)):
        survey.libraries.setdefault(name, path)


def check(survey: Survey, asked: Sequence[str]) -> None:
    """Raise `StackproofError` for what no pack can be made of, every problem at once."""
    own = survey.machine.architecture
    problems = [
        Problem(
            reason=Reason.UNSUPPORTED,
            message=f"`{path}` is for another kind of machine than the pack, which is for {own}",
            where=Location(file=path),
            hint="make the pack on a machine of that kind",
        )
        for path in asked
        if path in survey.skipped
    ]
    for path in asked:
        elf = survey.elves.get(path)
        if elf is None:
            continue
        if not is_loader(elf.interpreter):
            problems.append(
                Problem(
                    reason=Reason.UNSUPPORTED,
                    message=f"`{path}` is for the loader `{elf.interpreter}`, not glibc's",
                    where=Location(file=path),
                    hint="pack programs that were linked with glibc",
                )
            )
        for name, file in survey.missing.items():
            if file == path and name in elf.needed:
                problems.append(
                    Problem(
                        reason=Reason.FILE_MISSING,
                        message=f"`{os.path.basename(path)}` needs `{name}`, which neither the "
                        "image nor this machine has",
                        where=Location(file=path),
                        hint=f"install it here for {own}, choose a --view with it, or pack others",
                    )
                )
    if problems:
        raise StackproofError(*problems)
