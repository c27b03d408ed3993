"""Ways to mount an image: what each needs of a machine, the best one first.

`stackproof.mount.effects.mount_exec` does the mounting; here is what can be said without a machine.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.core.errors import Problem
from stackproof.mount.methods.facts import MountFacts
from stackproof.mount.methods.fuse import Fuse
from stackproof.mount.methods.helper import Helper
from stackproof.mount.methods.kernel import Kernel

__all__ = ["REGISTRY", "MountFacts", "Mounter", "first"]


class Mounter(Protocol):
    """One way to mount an image."""

    @property
    def name(self) -> str:
        """Return the name in the registry, which is also a value of `--how`."""

    @property
    def title(self) -> str:
        """Return what it is, in words that go behind `mounted by`."""

    def problems(self, facts: MountFacts) -> tuple[Problem, ...]:
        """Return everything that keeps a user from mounting this way."""


REGISTRY: dict[str, Mounter] = {mounter.name: mounter for mounter in (Kernel(), Helper(), Fuse())}


def first(facts: MountFacts) -> Mounter | None:
    """Return the way that `--how auto` takes on a machine, None if there is none."""
    return next((way for way in REGISTRY.values() if not way.problems(facts)), None)
