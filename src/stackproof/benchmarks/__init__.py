"""Benchmark programs: how each is called and how its output is read.

A member returns argv and parses bytes; it never runs anything. `METRICS` is what every member's
results are expressed in, so that programs can be compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stackproof.case import Case
from stackproof.measurement import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What a benchmark reports: its unit and whether more is better.

    `kind` groups metrics for margins (`latency`, `bandwidth`, `rate`, `collective`);
    `traffic` says how often a message's bytes cross a link in one direction's accounting (2 for a
    bidirectional test), used for `percent of limit`.
    """

    title: str
    unit: str
    higher_is_better: bool
    kind: str
    traffic: int = 1
    sized: bool = True


METRICS: dict[str, Metric] = {
    "latency": Metric(
        title="latency", unit="us", higher_is_better=False, kind="latency"
    ),
    "bandwidth": Metric(
        title="bandwidth", unit="MB/s", higher_is_better=True, kind="bandwidth"
    ),
    "bibandwidth": Metric(
        title="bidirectional bandwidth", unit="MB/s", higher_is_better=True, kind="bandwidth",
        traffic=2,
    ),
    "message_rate": Metric(
        title="message rate", unit="msg/s", higher_is_better=True, kind="rate"
    ),
    "allreduce": Metric(
        title="allreduce", unit="us", higher_is_better=False, kind="collective"
    ),
    "alltoall": Metric(title="alltoall", unit="us", higher_is_better=False, kind="collective"),
    "allgather": Metric(
        title="allgather", unit="us", higher_is_better=False, kind="collective"
    ),
    "bcast": Metric(title="bcast", unit="us", higher_is_better=False, kind="collective"),
    "barrier": Metric(
        title="barrier", unit="us", higher_is_better=False, kind="collective", sized=False
    ),
}


class Benchmark(Protocol):
    """A benchmark program."""

    name: str

    def problems(self, case: Case) -> tuple[str, ...]:
        """Return what of a case this program cannot do, in words."""

    def argv(self, program: str, case: Case) -> tuple[str, ...]:
        """Return the command line of one rank; `program` is the path of the executable."""

    def parse(self, stdout: bytes, case: Case) -> Output:
        """Return what the program printed; never raises, whatever the bytes are."""
