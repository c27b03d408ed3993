"""A pack as one file that mounts itself: a launcher, what mounts or unpacks, and an image.

The launcher reads its table:

| letter | text |
| --- | --- |
| `J` | the folder that the pack is mounted at, in a namespace that no one else sees |
| `M` | where its stack is to be as well (tier 1) |
| `O`, `Z` | where the SquashFS image begins in the file, and its size, in bytes |
| `B` | a program of `bin/` |
| `G` | the program to start when none is named |
| `l`, `b`, `t` | loader, library, program that mount or unpack it: `BEGIN SIZE NAME` |
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import run
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.image import superblock
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.pack.effects import entry_files
from stackproof.pack.effects.entry_files import fill, table_of
from stackproof.pack.model import Pack

PAGE = 4096
LOADER, LIBRARY, TOOL, IMAGE = "l", "b", "t", "O"


class FilePart(Value):
    """A part of a pack in one file: what it is, its name, and its place there, in bytes."""

    kind: str
    name: str
    begin: int
    size: int


def lay_out(first: int, sizes: Sequence[tuple[str, str, int]]) -> tuple[FilePart, ...]:
    """Return the places of parts, each at a page; `sizes` are kinds, names and sizes in order."""
    found = []
    begin = rounded(first)
    for kind, name, size in sizes:
        found.append(FilePart(kind=kind, name=name, begin=begin, size=size))
        begin = rounded(begin + size)
    return tuple(found)


def rounded(size: int) -> int:
    """Return a size in whole pages, in bytes."""
    return -(-size // PAGE) * PAGE


def records(pack: Pack, parts: Sequence[FilePart]) -> Iterator[tuple[str, str]]:
    """Yield the records of the launcher's table."""
    yield "J", f"/.stackproof-{pack.tree[:16]}"
    if pack.mounting:
        yield "M", pack.mounting.place
    for name in pack.programs:
        yield "B", name
    if pack.main:
        yield "G", pack.main
    for part in parts:
        if part.kind == IMAGE:
            yield "O", str(part.begin)
            yield "Z", str(rounded(part.size))
        else:
            yield part.kind, f"{part.begin} {part.size} {part.name}"


def tools(found: Mapping[str, str | None]) -> dict[str, str]:
    """Return the programs to carry along by the names that the launcher knows them by."""
    fuse = found.get("squashfuse_ll") or found.get("squashfuse")
    chosen = {"unsquashfs": found.get("unsquashfs"), "squashfuse": fuse}
    return {name: path for name, path in chosen.items() if path}


_TIMEOUT_S = 3600.0
_TOOLS = ("unsquashfs", "squashfuse_ll", "squashfuse")


def write_one_file(tree: Path, output: Path, pack: Pack) -> None:
    """Write a pack as one program.

    Raises `StackproofError`: what packing and compiling raise, TOOL_MISSING without unsquashfs;
    UNSUPPORTED for another architecture, as programs of this machine go along.
    """
    here = os.uname().machine
    if pack.architecture not in {"", here}:
        raise fail(
            Reason.UNSUPPORTED,
            f"a pack for {pack.architecture} cannot be one file that mounts itself here: what "
            f"mounts it is taken from this machine, which is {here}",
            hint="choose another --format, or pack on such a machine",
        )
    image = tree.with_name("image.squashfs")
    argv = superblock.pack_argv(os.fspath(tree), os.fspath(image))
    run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
    sources = [*_carried(), (IMAGE, "", os.fspath(image))]
    launcher = entry_files.template("self")
    sizes = [(kind, name, os.path.getsize(path)) for kind, name, path in sources]
    parts = lay_out(len(launcher), sizes)
    table = table_of(records(pack, parts), pack.name)
    whole = tree.with_name("whole")
    with whole.open("wb") as target:
        target.write(fill(launcher, table))
        for part, (_, _, path) in zip(parts, sources, strict=True):
            target.seek(part.begin)
            with open(path, "rb") as source:
                shutil.copyfileobj(source, target)
        target.truncate(rounded(target.tell()))
    whole.chmod(0o755)
    os.replace(whole, output)


def _carried() -> list[tuple[str, str, str]]:
    """Return kind, name and path of the programs that go along, of their libraries and loader."""
    machine = this_machine()
    programs = tools({name: shutil.which(name) for name in _TOOLS})
    found: dict[str, tuple[str, str, str]] = {}
    for name, path in programs.items():
        loader = runpath.read(path).interpreter
        found[loader] = (LOADER, posixpath.basename(loader), loader)
        closure = load_program(RootView(), path, machine=machine, setting=LoaderSettings())
        for library, taken in closure.taken.items():
            if os.path.realpath(taken) != os.path.realpath(loader):
                found[library] = (LIBRARY, posixpath.basename(library), taken)
        found[path] = (TOOL, name, path)
    return list(found.values())
