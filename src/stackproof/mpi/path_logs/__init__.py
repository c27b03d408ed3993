"""Probes: how each MPI is made to say which path its messages take, and how its words are read.

Members are the `evidence.py` of families, and pure. What is stated is only what was said; what it
means for a transport is decided in `stackproof.bench.path_verdict`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from stackproof.mpi.path_logs.patterns import Carrier, Line, LineRule, Pair, Words, read

__all__ = [
    "Carrier",
    "Line",
    "LineRule",
    "Pair",
    "Probe",
    "Words",
    "read",
]  # fmt: skip


class Probe(Protocol):
    """How one MPI family talks."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the variables that make it talk; they change no path."""

    @property
    def rules(self) -> Iterable[LineRule]:
        """Return the rules that read its words, and those of the libraries below it."""

    def carrier(self, words: Words, pair: Pair) -> Carrier | None:
        """Return the carrier from one rank to the other, None where nothing tells."""

    def gpu_ways(
        self,
        env: Mapping[str, str],
        layers: Collection[str],
        libraries: Iterable[str],
        *,
        inside: bool,
    ) -> Iterator[tuple[str, str]]:
        """Yield the ways of GPUs' buffers that follow from settings, each with its variable.

        `layers` are what it said of `Topic.LAYER`, `libraries` the names of files that it loaded;
        `inside` is whether all ranks share a node.
        """
