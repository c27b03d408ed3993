"""Ways to mount an image: what each needs of a machine, the best one first.

`stackproof.host.mountexec` does the mounting; here is what can be said without a machine.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.errors import Problem
from stackproof.mounts.facts import MountFacts
from stackproof.mounts.fuse import Fuse
from stackproof.mounts.helper import Helper
from stackproof.mounts.kernel import Kernel

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
