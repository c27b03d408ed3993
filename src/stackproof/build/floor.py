"""The oldest C library that an image is to run with: what of a plan or a tree asks for more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stackproof.build.foreseen import foresee
from stackproof.build.plan import Plan
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.inject import needs
from stackproof.inject.releases import number_of
from stackproof.linking.loader import FileView

_WORD = re.compile(r"glibc=(\d+(?:\.\d+)+)")
_RELATIVE = "GLIBC_ABI_DT_RELR"
_SHOWN = 20


def parse(word: str) -> str:
    """Return the release in `glibc=2.31`; raises `StackproofError` (USAGE)."""
    match = _WORD.fullmatch(word)
    if match is None:
        raise fail(
            Reason.USAGE,
            f"`--floor {word}` does not say the oldest C library",
            hint="write for example --floor glibc=2.31, the release of SLES 15 and Debian 11",
        )
    return match[1]


def above(view: FileView, paths: Iterable[str], release: str) -> dict[str, str]:
    """Return the ELF files of a tree that need a newer glibc, with the newest node of each.

    Weak nodes need not be there, and do not count.
    """
    most = number_of(f"GLIBC_{release}")
    found: dict[str, str] = {}
    for path, elf in needs.elves_of(view, paths).items():
        nodes = [
            one.name
            for one in elf.version_needs
            if not one.weak and _number(one.name) > max(most, _number(found.get(path, "")))
        ]
        if nodes:
            found[path] = max(nodes, key=_number)
    return found


def _number(node: str) -> tuple[int, ...]:
    """Return the numbers of a node of glibc's, none of another library's.

    glibc 2.36 brought relative relocations, under a node without a number:
    https://sourceware.org/glibc/wiki/Release/2.36.
    """
    if node == _RELATIVE:
        return (2, 36)
    return number_of(node) if node.startswith("GLIBC_") else ()


def refuse(found: Mapping[str, str], release: str, *, root: str) -> None:
    """Raise `StackproofError` (BUILD_FAILED) for files that need a newer glibc, with all nodes.

    `root` is the root that they were compiled in, empty for this machine's own.
    """
    if not found:
        return
    newest = max(found.values(), key=_number)
    lines = [f"{node}  {path}" for path, node in sorted(found.items())]
    more = len(lines) - _SHOWN
    lines = [*lines[:_SHOWN], f"and {more} more"] if more > 0 else lines
    files = "1 file needs" if len(found) == 1 else f"{len(found)} files need"
    raise fail(
        Reason.BUILD_FAILED,
        f"{files} a C library newer than glibc {release}, up to `{newest}`",
        detail="\n".join(lines),
        hint=_hint(root),
    )


def refuse_early(plan: Plan, stack: Any, here: str, release: str, *, root: str) -> None:
    """Raise `StackproofError` (UNSUPPORTED) where it is certain before anything is compiled.

    `here` is the glibc of the system that compiles.
    """
    node = foresee(plan, stack, here, locked=True).least.nodes.get("GLIBC", "")
    if number_of(node) > number_of(f"GLIBC_{release}"):
        raise _too_new(here, node, release, root)


def _too_new(here: str, node: str, release: str, root: str) -> StackproofError:
    place = f"the root `{root}`" if root else "this machine"
    return fail(
        Reason.UNSUPPORTED,
        f"{place} has glibc {here}: every program that is compiled here needs `{node}`, and the "
        f"floor is glibc {release}",
        hint=_hint(root),
    )


def _hint(root: str) -> str:
    if root:
        return "take a root with an older glibc, or a higher floor"
    return "build in the root of an older system: --root FOLDER, or on such a machine"
