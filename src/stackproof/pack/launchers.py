"""A pack that is one file: where its parts lie in it, and the table that its launcher reads.

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

from collections.abc import Iterator, Mapping, Sequence

from stackproof.core.value import Value
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
