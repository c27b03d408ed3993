"""An artefact as it describes itself, and which of its variants fits a machine."""

from __future__ import annotations

import re
from typing import ClassVar

from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile

LEVELS = ("provider", "libcxi", "libfabric", "mpi")
"""Where an artefact can be injected, the level that touches least first."""

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Variant(Value):
    """One variant as its artefact describes it: a folder, a release of SHS, what it offers.

    `libcxi` is the newest version node of the libcxi that it is made with; empty without one.
    """

    folder: str
    shs: str = ""
    libcxi: str = ""
    levels: tuple[str, ...] = ()


class ArtefactMetadata(Value):
    """What an artefact says of itself."""

    SCHEMA: ClassVar[str] = "stackproof/artefact/1"

    name: str
    place: str
    variants: tuple[Variant, ...]


def check_name(text: str, what: str) -> str:
    """Return a name that can be a folder; raises `StackproofError` (USAGE)."""
    if _NAME.fullmatch(text):
        return text
    raise fail(
        Reason.USAGE,
        f"`{text}` is no name of {what}",
        hint="letters, digits, `.`, `_` and `-`, for example net-1",
    )


def check_release(text: str) -> str:
    """Return a release of the Slingshot host software; raises `StackproofError` (USAGE)."""
    if _RELEASE.fullmatch(text):
        return text
    raise fail(Reason.USAGE, f"`{text}` is no release", hint="for example: --shs 12.0.2")


def choose_variant(artefact: ArtefactMetadata, shs: str, node: str) -> Variant:
    """Return the variant for a release of SHS, or for the newest node of a machine's own libcxi.

    A libcxi that is newer than the driver asks it for what it does not know, so that the newest one
    that is not newer than the machine's own fits. Raises `StackproofError` (USAGE) when none does,
    or when nothing says which.
    """
    names = ", ".join(one.shs or one.folder for one in artefact.variants)
    if shs:
        for one in artefact.variants:
            if shs in {one.shs, one.folder}:
                return one
        raise fail(Reason.USAGE, f"there is no variant for SHS {shs}", hint=f"there are: {names}")
    if len(artefact.variants) == 1:
        return artefact.variants[0]
    fits = [one for one in artefact.variants if node and _number(one.libcxi) <= _number(node)]
    if not fits:
        why = f"none is as old as `{node}`" if node else "this machine has no libcxi of its own"
        raise fail(
            Reason.USAGE,
            f"which variant of `{artefact.name}` fits is not known: {why}",
            hint=f"name it: --shs, one of {names}",
        )
    return max(fits, key=lambda one: (_number(one.libcxi), _number(one.shs)))


def _number(text: str) -> tuple[int, ...]:
    """Return the numbers of a node or a release, for comparing."""
    return tuple(map(int, re.findall(r"\d+", text)))


def newest_node(elf: ElfFile, kind: str) -> str:
    """Return the newest version node of a kind (`LIBCXI`) that a library defines."""
    nodes = [one.name for one in elf.version_definitions if one.name.startswith(f"{kind}_")]
    return max(nodes, key=_number, default="")
