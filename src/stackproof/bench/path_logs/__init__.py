"""Probes: how each MPI is made to say which path its messages take, and how its words are read.

Members are pure. What is stated is only what was said; what it means for a transport is decided in
`stackproof.bench.path_verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from stackproof.bench.path_logs.cray_mpich import CrayMpichLog
from stackproof.bench.path_logs.intel_mpi import IntelMpiLog
from stackproof.bench.path_logs.mpich import MpichLog
from stackproof.bench.path_logs.openmpi import OpenMpiLog
from stackproof.bench.path_logs.patterns import Carrier, Line, LineRule, Pair, Words, read

__all__ = [
    "REGISTRY",
    "Carrier",
    "Line",
    "LineRule",
    "Pair",
    "Probe",
    "Words",
    "read",
    "settings_of",
]  # fmt: skip


class Probe(Protocol):
    """One MPI family, by its name in `stackproof.mpi.families`."""

    @property
    def name(self) -> str:
        """Return the name of the family."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the variables that make it talk; they change no path."""

    @property
    def rules(self) -> Iterable[LineRule]:
        """Return how its words, and those of the libraries below it, are read."""

    def carrier(self, words: Words, pair: Pair) -> Carrier | None:
        """Return what one rank sends to the other by, None where nothing tells."""


REGISTRY: dict[str, Probe] = {
    probe.name: probe for probe in (OpenMpiLog(), MpichLog(), IntelMpiLog(), CrayMpichLog())
}


def settings_of(family: str) -> Mapping[str, str]:
    """Return what makes a family talk; nothing for one that has no probe."""
    return REGISTRY[family].settings if family in REGISTRY else {}
