"""What makes an MPI take message buffers in the memory of a GPU, whatever path they go.

A family's switch is set only for releases that read it: a variable that nothing reads would stand
in results as if it had been tried.
"""

from __future__ import annotations

from stackproof.core.errors import Reason, fail
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.transports import support
from stackproof.mpi.transports.profile import Memory, Setup

_GDRCOPY = "FI_HMEM_CUDA_USE_GDRCOPY"
_GDRCOPY_FIRST = (1, 12)
"""The first libfabric that reads it: src/hmem_cuda.c of 1.12.0, and fabric(7)."""


def require(setup: Setup) -> None:
    """Raise `StackproofError` (UNSUPPORTED) for a GPU whose memory the MPI is known not to take."""
    if setup.memory not in setup.without:
        return
    gpu = setup.memory.value
    title = support.title_of(setup.family)
    raise fail(
        Reason.UNSUPPORTED,
        f"{title} {setup.version} was built without `{gpu}`: it would take the address of a buffer "
        "in a GPU's memory for one of the host, and its ranks would die",
        hint=f"build the MPI with `{gpu}` (a site with such GPUs does), or leave `memory` out",
    )


def settings(setup: Setup) -> dict[str, str]:
    """Return the variables that the MPI and libfabric read for a GPU's memory; none for the host's.

    GDRCopy is asked for where libfabric may have it: one that was built without reads no such
    variable (src/hmem_cuda.c).
    """
    if setup.memory is Memory.HOST:
        return {}
    found = switches(setup.family, setup.version, setup.memory)
    libfabric = support.numbers(setup.libfabric.version)
    may_have = setup.libfabric.gdrcopy is not False and libfabric >= _GDRCOPY_FIRST
    if setup.memory is Memory.CUDA and may_have:
        found[_GDRCOPY] = "1"
    return found


def switches(family: str, version: str, memory: str) -> dict[str, str]:
    """Return the variables that a release of a family reads for buffers on one kind of GPU."""
    return {
        switch.name: switch.value
        for switch in (REGISTRY[family].gpu_switches if family in REGISTRY else ())
        if memory in switch.memory and support.numbers(version) >= switch.since
    }
