"""Version nodes of an ELF file: those that it needs of others, those that it defines."""

from __future__ import annotations

from stackproof.core import limits
from stackproof.linking.elf.layout import (
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    Frame,
    damaged,
)
from stackproof.linking.elf.model import HIDDEN, VersionDefinition, VersionNeed

_BASE, _WEAK = 1, 2


def needs(frame: Frame) -> tuple[VersionNeed, ...]:
    """Return the version nodes that must be defined by others."""
    address, count = frame.one(DT_VERNEED), frame.one(DT_VERNEEDNUM)
    if address is None or not count:
        return ()
    table = frame.rest(address, limits.ELF_VERSIONS.bytes)
    found: list[VersionNeed] = []
    at = 0
    for _ in range(_checked(frame, count)):
        _, nodes, file, first, following = frame.unpack("HHIII", table, at)
        inner = at + first
        for _ in range(nodes):
            _, flags, index, name, next_node = frame.unpack("IHHII", table, inner)
            found.append(
                VersionNeed(
                    library=frame.text(file),
                    name=frame.text(name),
                    number=index & ~HIDDEN,
                    weak=bool(flags & _WEAK),
                    hidden=bool(index & HIDDEN),
                )
            )
            _checked(frame, len(found))
            if not next_node:
                break
            inner += next_node
        if not following:
            break
        at += following
    return tuple(found)


def definitions(frame: Frame) -> tuple[VersionDefinition, ...]:
    """Return the version nodes that the object defines."""
    address, count = frame.one(DT_VERDEF), frame.one(DT_VERDEFNUM)
    if address is None or not count:
        return ()
    table = frame.rest(address, limits.ELF_VERSIONS.bytes)
    found = []
    at = 0
    for _ in range(_checked(frame, count)):
        _, flags, index, _, _, first, following = frame.unpack("HHHHIII", table, at)
        name, _ = frame.unpack("II", table, at + first)
        found.append(
            VersionDefinition(
                name=frame.text(name), number=index & ~HIDDEN, base=bool(flags & _BASE)
            )
        )
        if not following:
            break
        at += following
    return tuple(found)


def _checked(frame: Frame, count: int) -> int:
    if count > limits.ELF_VERSIONS.count:
        raise damaged(frame.source.name, f"it has {count} version nodes")
    return count
