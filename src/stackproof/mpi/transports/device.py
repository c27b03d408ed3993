"""What makes an MPI take message buffers in the memory of a GPU, whatever path they go.

Each row is set only for releases that read it: a variable that nothing reads would stand in results
as if it had been tried.
"""

from __future__ import annotations

from dataclasses import dataclass

from stackproof.core.errors import Reason, fail
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.transports import support
from stackproof.mpi.transports.profile import Memory, Setup

_GPUS = frozenset({Memory.CUDA, Memory.ROCM})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switch:
    """A variable, the first release of a family that reads it, and the GPUs that it is for."""

    name: str
    value: str
    family: str
    first: tuple[int, ...]
    memory: frozenset[Memory] = _GPUS


# Without its switch Cray MPICH takes a GPU's address for the host's (K45), and MPICH sends all
# through the host (K52). Sources, in this order: intro_mpi(3) of Cray MPICH and docs.olcf.ornl.gov,
# Frontier User Guide, "GPU-Aware MPI"; MPICH, src/mpid/ch4/netmod/ofi/ofi_init.c, which has it from
# 4.1 on; Intel MPI Library Developer Reference, "GPU Buffers Support".
_SWITCHES = (
    _Switch(name="MPICH_GPU_SUPPORT_ENABLED", value="1", family="cray-mpich", first=(8, 1)),
    _Switch(name="MPIR_CVAR_CH4_OFI_ENABLE_HMEM", value="1", family="mpich", first=(4, 1)),
    _Switch(
        name="I_MPI_OFFLOAD", value="1", family="intel-mpi", first=(2021, 8),
        memory=frozenset({Memory.CUDA}),
    ),
)  # fmt: skip
_GDRCOPY = "FI_HMEM_CUDA_USE_GDRCOPY"
_GDRCOPY_FIRST = (1, 12)
"""The first libfabric that reads it: src/hmem_cuda.c of 1.12.0, and fabric(7)."""


def require(setup: Setup) -> None:
    """Raise `StackproofError` (UNSUPPORTED) for a GPU whose memory the MPI is known not to take."""
    if setup.memory not in setup.without:
        return
    gpu = setup.memory.value
    title = REGISTRY[setup.family].title if setup.family in REGISTRY else setup.family
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
    found = {
        switch.name: switch.value
        for switch in _SWITCHES
        if setup.family == switch.family
        and setup.memory in switch.memory
        and support.numbers(setup.version) >= switch.first
    }
    libfabric = support.numbers(setup.libfabric.version)
    may_have = setup.libfabric.gdrcopy is not False and libfabric >= _GDRCOPY_FIRST
    if setup.memory is Memory.CUDA and may_have:
        found[_GDRCOPY] = "1"
    return found
