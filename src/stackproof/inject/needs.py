"""A tree of programs and libraries to what it needs of a machine, and what a machine lacks of that.

Only files of the tree are looked at: what it asks for and does not bring, by version nodes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core.value import Value
from stackproof.inject.releases import Releases, number_of
from stackproof.inject.target import Target, is_c_library
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import FileView, elf_at
from stackproof.linking.loader.machine import LEVELS


class TreeNeeds(Value):
    """What a tree needs of a machine.

    `nodes` has the newest version node of each kind, `asks` the file that asks for it; `libraries`
    maps SONAMEs that are neither in the tree nor glibc's to a file that needs them. `level` is that
    of the processor that some file says it needs, empty for none.
    """

    SCHEMA: ClassVar[str] = "stackproof/needs/1"

    machine: str = ""
    level: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)


class Lacks(Value):
    """What a machine is known to lack, and what is not known of it, in words."""

    lacks: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def elves_of(view: FileView, paths: Iterable[str]) -> dict[str, ElfFile]:
    """Return what is loaded of ELF files, by path; files that cannot be read are left out."""
    elves: dict[str, ElfFile] = {}
    for path in paths:
        elf = elf_at(view, path)
        if elf is not None and elf.dynamic:
            elves[path] = elf
    return elves


def tree_needs(view: FileView, paths: Iterable[str]) -> TreeNeeds:
    """Return what ELF files need besides each other; files that cannot be read are left out."""
    elves = elves_of(view, paths)
    own = {elf.soname for elf in elves.values()} | {posixpath.basename(path) for path in elves}
    nodes: dict[str, str] = {}
    asks: dict[str, str] = {}
    libraries: dict[str, str] = {}
    for path, elf in elves.items():
        for name in elf.needed:
            if posixpath.basename(name) not in own and not is_c_library(name):
                libraries.setdefault(name, path)
        for need in elf.version_needs:
            kind = need.name.rpartition("_")[0]
            newer = number_of(need.name) > number_of(nodes.get(kind, ""))
            if need.library not in own and not need.weak and newer:
                nodes[kind], asks[kind] = need.name, path
    levels = [elf.isa for elf in elves.values() if elf.isa in LEVELS]
    return TreeNeeds(
        machine=next((elf.machine for elf in elves.values()), ""),
        level=max(levels, key=LEVELS.index, default=""),
        nodes=dict(sorted(nodes.items())),
        asks=asks,
        libraries=dict(sorted(libraries.items())),
    )


def lacks(needs: TreeNeeds, target: Target, releases: Releases) -> Lacks:
    """Return what a machine lacks, and what its facts do not tell."""
    found = [*_machine(needs, target), *_nodes(needs, target, releases)]
    unknown = [text for known, text in found if not known]
    unknown += [
        f"`{soname}`, for {path}: {target.name} does not say that it has it"
        for soname, path in needs.libraries.items()
        if not target.has(soname)
    ]
    return Lacks(lacks=tuple(text for known, text in found if known), unknown=tuple(unknown))


def _machine(needs: TreeNeeds, target: Target) -> Iterator[tuple[bool, str]]:
    if target.architecture and needs.machine and target.architecture != needs.machine:
        yield True, f"it is for {needs.machine}, and {target.name} is {target.architecture}"
    elif needs.level and target.level and LEVELS.index(needs.level) > LEVELS.index(target.level):
        yield True, f"it needs processors of {needs.level}, and {target.name} has {target.level}"


def _nodes(needs: TreeNeeds, target: Target, releases: Releases) -> Iterator[tuple[bool, str]]:
    for kind, node in needs.nodes.items():
        has = target.nodes.get(kind, "")
        meaning = releases.meaning(node)
        shown = f"`{node}`{f' ({meaning})' if meaning else ''}, for {needs.asks[kind]}"
        if has and number_of(node) > number_of(has):
            yield True, f"{shown}: {target.name} has `{has}`{target.because(kind)}"
        elif not has and (meaning or kind == "GLIBC"):  # of others the library is looked for
            yield False, f"{shown}: {target.name} does not say which it has"
