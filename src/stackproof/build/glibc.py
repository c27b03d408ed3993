"""The C library that an image needs: foreseen from its plan, and read from its files.

Files tell the rest once they are there (`inject.needs`). Until then a wheel's tag and the glibc of
the machine that compiles are the most that an image can ask for, and how programs start the least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from stackproof.build.plan import Plan
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.inject.needs import Lacks, TreeNeeds, elves_of, lacks
from stackproof.inject.releases import Releases, number_of
from stackproof.inject.target import target_of_site
from stackproof.linking.loader import FileView
from stackproof.site.model import Site

_FLOOR = re.compile(r"glibc=(\d+(?:\.\d+)+)")
_TAG = re.compile(r"manylinux_(\d+)_(\d+)_|manylinux(1|2010|2014)_")
_OLD_TAGS = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
"""Source: https://peps.python.org/pep-0600/ (legacy manylinux tags)."""
_NEW_START = "GLIBC_2.34"
"""What every program asks for that is linked with this glibc or a newer one: `__libc_start_main`.

Source: the news of glibc 2.34, https://sourceware.org/glibc/wiki/Release/2.34.
"""
_RELATIVE = "GLIBC_ABI_DT_RELR"
_COMPILED = "what is compiled here"
_SHOWN = 20
HINT = "build on a system as old, for example with stackproof in a container of it"


class ForeseenNeeds(Value):
    """What an image will need: `least` in any case, `most` as far as it is known already."""

    least: TreeNeeds
    most: TreeNeeds


def foresee(plan: Plan, architecture: str, glibc: str, *, locked: bool) -> ForeseenNeeds:
    """Return what the image of a plan will need; `glibc` is that of the machine that compiles.

    What is not `locked` yet is taken to be compiled.
    """
    least, most, asks = "", "", ""
    for name in (one.filename for step in plan.steps for one in step.fetch):
        node = _node_of(name)
        if number_of(node) > number_of(most):
            most, asks = node, name
    here = f"GLIBC_{glibc}" if glibc else ""
    if not locked or any(step.compiles for step in plan.steps):
        if number_of(here) > number_of(most):
            most, asks = here, _COMPILED
        if number_of(here) >= number_of(_NEW_START):
            least = _NEW_START
    return ForeseenNeeds(
        least=_needs(architecture, least, _COMPILED), most=_needs(architecture, most, asks)
    )


def _needs(architecture: str, node: str, asks: str) -> TreeNeeds:
    if not node:
        return TreeNeeds(machine=architecture)
    return TreeNeeds(machine=architecture, nodes={"GLIBC": node}, asks={"GLIBC": asks})


def lacking(needs: ForeseenNeeds, site: Site, releases: Releases) -> Lacks:
    """Return what a site lacks for certain, and what its file, or only the build, can tell."""
    target = target_of_site(site, releases)
    sure, most = (lacks(one, target, releases) for one in (needs.least, needs.most))
    perhaps = [] if sure.lacks else [f"perhaps {text}" for text in most.lacks]
    return Lacks(lacks=sure.lacks, unknown=(*perhaps, *most.unknown))


def _node_of(filename: str) -> str:
    """Return the newest glibc that a wheel may ask for, by its tags; empty for another file."""
    releases = [
        _OLD_TAGS[old] if old else (int(major), int(minor))
        for major, minor, old in _TAG.findall(filename)
    ]
    return f"GLIBC_{'.'.join(map(str, min(releases)))}" if releases else ""


def parse_floor(word: str) -> str:
    """Return the release in `glibc=2.31`; raises `StackproofError` (USAGE)."""
    match = _FLOOR.fullmatch(word)
    if match is None:
        raise fail(
            Reason.USAGE,
            f"`--floor {word}` does not say the oldest C library",
            hint="write for example --floor glibc=2.31, the release of SLES 15 and Debian 11",
        )
    return match[1]


def refuse_early(needs: ForeseenNeeds, glibc: str, floor: str) -> None:
    """Raise `StackproofError` (UNSUPPORTED) where it is certain before anything is compiled."""
    node = needs.least.nodes.get("GLIBC", "")
    if number_of(node) > number_of(f"GLIBC_{floor}"):
        raise fail(
            Reason.UNSUPPORTED,
            f"this machine has glibc {glibc}: every program that is compiled here needs `{node}`, "
            f"and the floor is glibc {floor}",
            hint=HINT,
        )


def above(view: FileView, paths: Iterable[str], floor: str) -> dict[str, str]:
    """Return the ELF files of a tree that need a newer glibc, with the newest node of each.

    Weak nodes need not be there, and do not count.
    """
    most = number_of(f"GLIBC_{floor}")
    newest: dict[str, str] = {}
    for path, elf in elves_of(view, paths).items():
        nodes = [one.name for one in elf.version_needs if not one.weak]
        node = max(nodes, key=_number, default="")
        if _number(node) > most:
            newest[path] = node
    return newest


def _number(node: str) -> tuple[int, ...]:
    """Return the numbers of a node of glibc's, none of another library's.

    glibc 2.36 brought relative relocations, under a node without a number:
    https://sourceware.org/glibc/wiki/Release/2.36.
    """
    if node == _RELATIVE:
        return (2, 36)
    return number_of(node) if node.startswith("GLIBC_") else ()


def refuse(newest: Mapping[str, str], floor: str) -> None:
    """Raise `StackproofError` (BUILD_FAILED) for files that need a newer glibc, by their nodes."""
    if not newest:
        return
    most = max(newest.values(), key=_number)
    lines = [f"{node}  {path}" for path, node in sorted(newest.items())]
    more = len(lines) - _SHOWN
    lines = [*lines[:_SHOWN], f"and {more} more"] if more > 0 else lines
    files = "1 file needs" if len(newest) == 1 else f"{len(newest)} files need"
    raise fail(
        Reason.BUILD_FAILED,
        f"{files} a C library newer than glibc {floor}, up to `{most}`",
        detail="\n".join(lines),
        hint=HINT,
    )
