"""Transport profiles: the settings that make an MPI use one path, and how to see that it did.

A profile forces its path: where the path cannot be had, the MPI must fail and not take another
one. That does not hold for every MPI and every mistake, so that each profile also has a check,
which looks at the bytes that left the interfaces of each node, never at the speed.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.core import registry
from stackproof.core.command import EnvPatch
from stackproof.core.value import replace
from stackproof.mpi.transports import device
from stackproof.mpi.transports.auto import Auto
from stackproof.mpi.transports.cxi import Cxi
from stackproof.mpi.transports.lnx import Lnx
from stackproof.mpi.transports.matched import Matched
from stackproof.mpi.transports.profile import (
    Libfabric,
    Memory,
    Profile,
    Setup,
    libfabric_of,
    without_by_bill,
)
from stackproof.mpi.transports.shm import Shm
from stackproof.mpi.transports.tcp import Tcp
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Output

__all__ = [
    "REGISTRY",
    "Libfabric",
    "Memory",
    "Profile",
    "Setup",
    "Transport",
    "get",
    "libfabric_of",
    "profile_of",
    "without_by_bill",
]  # fmt: skip


class Transport(Protocol):
    """One path that messages can take."""

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    @property
    def title(self) -> str:
        """Return what a reader of a report should see."""

    def supports(self, family: str, version: str) -> bool:
        """Return whether this release of a family in `mpi.families` can be forced."""

    def profile(self, setup: Setup) -> Profile:
        """Return the variables that force the path, and what shows that it was taken.

        Raises `StackproofError` (UNSUPPORTED) when versions, fabric, memory or placement cannot do
        it; it says which can.
        """

    def check(self, output: Output, case: Case) -> Check:
        """Return whether the messages took the path, by the bytes that were counted."""


REGISTRY: dict[str, Transport] = {
    transport.name: transport for transport in (Auto(), Shm(), Tcp(), Cxi(), Matched(), Lnx())
}


def profile_of(name: str, setup: Setup) -> Profile:
    """Return a transport's profile, with what makes the MPI take buffers of a GPU.

    Raises `StackproofError` (UNSUPPORTED) as `Transport.profile` does, and where the MPI is known
    to take no such buffers.
    """
    device.require(setup)
    found = get(name).profile(setup)
    return replace(found, env=EnvPatch(set={**device.settings(setup), **found.env.set}))


def get(name: str) -> Transport:
    """Return a transport by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="transport")
