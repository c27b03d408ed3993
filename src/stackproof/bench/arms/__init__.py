"""What an arm can be: an image, or an MPI that a machine has by another way.

Members are pure: they say how an arm of their kind is written, in a specification and in short on
the command line. How it is made ready is in `bench/effects/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from stackproof.bench.arms.container import ContainerArm
from stackproof.bench.arms.eessi import EessiArm
from stackproof.bench.arms.image import ImageArm
from stackproof.bench.arms.module import ModuleArm
from stackproof.bench.arms.pack import PackArm
from stackproof.bench.arms.prefix import PrefixArm
from stackproof.bench.arms.vendor import VendorArm

COMMON = frozenset({"name", "transports", "placements", "env", "rate", "pmi", "launcher"})
"""Keys of every arm."""


class ArmKind(Protocol):
    """A kind of arm; its name is the key that says what it is."""

    @property
    def name(self) -> str:
        """Return the name, which is the key of a specification and the word before `:` in short."""

    @property
    def title(self) -> str:
        """Return what it is, with its article."""

    @property
    def keys(self) -> frozenset[str]:
        """Return the other keys that an arm of this kind may have, besides those of every arm."""

    def short(self, text: str) -> dict[str, Any]:
        """Return the entry of a specification that a text after `NAME:` stands for."""

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the fields of `spec.Arm` that an entry sets; paths are relative to `folder`."""


REGISTRY: dict[str, ArmKind] = {
    kind.name: kind
    for kind in (
        ImageArm(), PackArm(), PrefixArm(), ModuleArm(), VendorArm(), ContainerArm(), EessiArm()
    )
}  # fmt: skip


def kinds_of(entry: Mapping[str, Any]) -> tuple[ArmKind, ...]:
    """Return the kinds that an entry says it is: one, when it is right."""
    return tuple(kind for name, kind in REGISTRY.items() if name in entry)


def strangers(kind: ArmKind, entry: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the keys of an entry that its kind does not have, and the titles of those that do."""
    others = entry.keys() - COMMON - kind.keys - {kind.name} - REGISTRY.keys()
    return tuple(
        (key, tuple(one.title for one in REGISTRY.values() if key in one.keys))
        for key in entry
        if key in others
    )


def split_short(text: str) -> tuple[ArmKind, str] | None:
    """Return the kind that a word of the command line names before `:`, and the rest.

    `vendor` needs no rest.
    """
    name, mark, rest = text.partition(":")
    known = name in REGISTRY and (mark or name == VendorArm.name)
    return (REGISTRY[name], rest) if known else None
