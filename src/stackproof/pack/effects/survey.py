"""A tree at its mount point to what its programs and libraries load, from it and from here."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from msgspec import Struct, field

from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.inject.artefact import is_machines
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.mpi import abi
from stackproof.pack.layout import C_LIBRARY, is_inside, is_loader


class Survey(Struct, kw_only=True):
    """What was seen; paths are those of the view, with the tree at its mount point.

    `elves` are all dynamic files of the tree, `folders` where each finds what it needs in the tree.
    `libraries` are files of this machine by the name that is asked for, `c_library` those that go
    with its loader. `missing` maps names to a file that asks for them.
    """

    elves: dict[str, ElfFile] = field(default_factory=dict)
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    c_library: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def look_around(
    view: RootView, mount: str, library_path: Sequence[str], *, has_mpi: bool
) -> Survey:
    """Return what the dynamic files below a mount point load; raises what reading them raises.

    Where the tree `has_mpi`, what asks for another one is left without it: a variant of a module,
    which nothing loads here.
    """
    found = Survey()
    setting = LoaderSettings(library_path=tuple(library_path))
    machine = this_machine()
    for path in view.elf_files(mount):
        file = view.look(path)
        elf = view.elf(file) if file else None
        if elf is None or not elf.dynamic:
            continue
        if elf.machine != machine.architecture or elf.bits != 64:
            found.skipped.append(path)
            continue
        found.elves[path] = elf
        closure = load_program(view, path, machine=machine, setting=setting)
        other = [one.path for one in closure.objects[1:] if has_mpi and _is_other(one.path, mount)]
        if other:
            found.missing.setdefault(posixpath.basename(other[0]), path)
            continue
        for loaded in closure.objects[1:]:
            if not is_inside(loaded.path, mount):
                for name in sorted(loaded.names):
                    _carry(found, posixpath.basename(name), loaded.path)
        for edge in closure.missing:
            found.missing.setdefault(edge.name, closure.objects[edge.by].path)
        direct = [closure.objects[edge.to].path for edge in closure.needs_of(0) if edge.to]
        inside = [posixpath.normpath(one) for one in direct if is_inside(one, mount)]
        found.folders[path] = tuple(dict.fromkeys(map(posixpath.dirname, inside)))
    return found


def _is_other(path: str, mount: str) -> bool:
    """Return whether a path is the main library of an MPI of this machine."""
    promise = abi.abi_of_name(posixpath.basename(path))
    outside = not is_inside(path, mount)
    return outside and promise is not None and promise[1] is abi.LibraryRole.MAIN


def _carry(found: Survey, name: str, path: str) -> None:
    """Take a library of this machine along, unless it goes with the driver of its kernel."""
    if C_LIBRARY.fullmatch(name):
        found.c_library.setdefault(name, path)
    if name.startswith("libgcc_s.") or not (C_LIBRARY.fullmatch(name) or is_machines(name)):
        found.libraries.setdefault(name, path)


def check(found: Survey, asked: Sequence[str]) -> None:
    """Raise `StackproofError` for what no pack can be made of, every problem at once."""
    problems = [_foreign(path) for path in asked if path in found.skipped]
    for path in asked:
        elf = found.elves.get(path)
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
        for name, file in found.missing.items():
            if file == path and name in elf.needed:
                problems.append(
                    Problem(
                        reason=Reason.FILE_MISSING,
                        message=f"`{os.path.basename(path)}` needs `{name}`, which neither the "
                        "image nor this machine has",
                        where=Location(file=path),
                        hint="install it here, choose a --view with it, or pack other programs",
                    )
                )
    if problems:
        raise StackproofError(*problems)


def _foreign(path: str) -> Problem:
    return Problem(
        reason=Reason.UNSUPPORTED,
        message=f"`{path}` is for another kind of machine than this one",
        where=Location(file=path),
        hint="make the pack on a machine of that kind",
    )
