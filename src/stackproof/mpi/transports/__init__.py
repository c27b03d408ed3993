"""Transport profiles: the settings that make an MPI use one path, and how to see that it did.

A profile forces its path: where the path cannot be had, the MPI must fail and not take another
one. That does not hold for every MPI and every mistake, so that each profile also has a check,
which looks at the bytes that left the interfaces of each node, never at the speed.
"""

from __future__ import annotations

from stackproof.core import registry
from stackproof.core.command import EnvPatch
from stackproof.core.value import replace
from stackproof.mpi.transports import device
from stackproof.mpi.transports.cxi import CXI, MATCHED
from stackproof.mpi.transports.kernel import AUTO, SHM, TCP
from stackproof.mpi.transports.lnx import LNX
from stackproof.mpi.transports.profile import (
    Libfabric,
    Memory,
    Profile,
    Setup,
    libfabric_of,
    without_by_bill,
)
from stackproof.mpi.transports.support import Transport

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


REGISTRY = {transport.name: transport for transport in (AUTO, SHM, TCP, CXI, MATCHED, LNX)}


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
