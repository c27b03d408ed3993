"""Cray MPICH: libfabric below it says which providers it opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stackproof.mpi.path_logs import libfabric
from stackproof.mpi.path_logs.patterns import Carrier, Pair, Probe, Ways, Words, provided
from stackproof.results.case import Locality
from stackproof.results.path import Medium, Topic

_GTL = "libmpi_gtl_"


def _carrier(words: Words, pair: Pair) -> Carrier | None:
    """Return the provider between nodes if only one was opened, inside its own memory."""
    if pair.local:
        return Carrier(name="its own shared memory", medium=Medium.MEMORY, told=False)
    opened = words.of(Topic.OPENED, pair.rank)
    return provided(words, pair, opened[0], "ch4:ofi") if len(opened) == 1 else None


def _gpu_ways(
    env: Mapping[str, str], _: Collection[str], libraries: Iterable[str], locality: Locality
) -> Ways:
    """Return the way that its library for GPUs takes; intro_mpi(3): IPC is on inside a node."""
    if not any(name.startswith(_GTL) for name in libraries):
        return ()
    if locality is Locality.INTER:
        return (("GPU-direct", "MPICH_GPU_SUPPORT_ENABLED"),)
    by_ipc = env.get("MPICH_GPU_IPC_ENABLED", "1") != "0"
    return (("IPC" if by_ipc else "staged", "MPICH_GPU_IPC_ENABLED"),)


# Cray MPICH 8; its own memory carries messages inside a node (intro_mpi(3)).
PROBE = Probe(
    settings={"MPICH_OFI_VERBOSE": "1", "MPICH_VERSION_DISPLAY": "1", **libfabric.SETTINGS},
    rules=libfabric.RULES,
    carrier=_carrier,
    gpu_ways=_gpu_ways,
)
