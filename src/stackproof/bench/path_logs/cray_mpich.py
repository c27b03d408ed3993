"""Cray MPICH: libfabric below it says which providers it opened."""

from __future__ import annotations

from stackproof.bench.path_logs import libfabric
from stackproof.bench.path_logs.patterns import Carrier, Pair, Words, provided
from stackproof.results.path import Medium, Topic

_SETTINGS = {"MPICH_OFI_VERBOSE": "1", "MPICH_VERSION_DISPLAY": "1", **libfabric.SETTINGS}


class CrayMpichLog:
    """Cray MPICH 8; its own memory carries messages inside a node (intro_mpi(3))."""

    name = "cray-mpich"
    settings = _SETTINGS
    rules = libfabric.RULES

    def carrier(self, words: Words, pair: Pair) -> Carrier | None:
        """Return the provider between nodes if only one was opened, inside its own memory."""
        if pair.local:
            return Carrier(name="its own shared memory", medium=Medium.MEMORY, told=False)
        opened = words.of(Topic.OPENED, pair.rank)
        return provided(words, pair, opened[0], "ch4:ofi") if len(opened) == 1 else None
