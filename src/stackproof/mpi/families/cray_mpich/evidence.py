"""Cray MPICH: libfabric below it says which providers it opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from stackproof.mpi.path_logs import libfabric
from stackproof.mpi.path_logs.patterns import Carrier, Pair, Words, provided
from stackproof.results.path import Medium, Topic

_GTL = "libmpi_gtl_"
_SETTINGS = {"MPICH_OFI_VERBOSE": "1", "MPICH_VERSION_DISPLAY": "1", **libfabric.SETTINGS}


class CrayMpichLog:
    """Cray MPICH 8; its own memory carries messages inside a node (intro_mpi(3))."""

    settings = _SETTINGS
    rules = libfabric.RULES

    def carrier(self, words: Words, pair: Pair) -> Carrier | None:
        """Return the provider between nodes if only one was opened, inside its own memory."""
        if pair.local:
            return Carrier(name="its own shared memory", medium=Medium.MEMORY, told=False)
        opened = words.of(Topic.OPENED, pair.rank)
        return provided(words, pair, opened[0], "ch4:ofi") if len(opened) == 1 else None

    def gpu_ways(
        self,
        env: Mapping[str, str],
        layers: Collection[str],
        libraries: Iterable[str],
        *,
        inside: bool,
    ) -> Iterator[tuple[str, str]]:
        """Yield the way that its library for GPUs takes; intro_mpi(3): IPC is on inside a node."""
        del layers
        if not any(name.startswith(_GTL) for name in libraries):
            return
        by_ipc = inside and env.get("MPICH_GPU_IPC_ENABLED", "1") != "0"
        way = "IPC" if by_ipc else "staged" if inside else "GPU-direct"
        yield way, ("MPICH_GPU_IPC_ENABLED" if inside else "MPICH_GPU_SUPPORT_ENABLED")


PROBE = CrayMpichLog()
