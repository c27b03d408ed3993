"""What every benchmark's results are expressed in."""

from __future__ import annotations

from dataclasses import dataclass


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
    "latency": Metric(title="latency", unit="us", higher_is_better=False, kind="latency"),
    "bandwidth": Metric(title="bandwidth", unit="MB/s", higher_is_better=True, kind="bandwidth"),
    "bibandwidth": Metric(
        title="bidirectional bandwidth",
        unit="MB/s",
        higher_is_better=True,
        kind="bandwidth",
        traffic=2,
    ),
    "message_rate": Metric(title="message rate", unit="msg/s", higher_is_better=True, kind="rate"),
    "allreduce": Metric(title="allreduce", unit="us", higher_is_better=False, kind="collective"),
    "alltoall": Metric(title="alltoall", unit="us", higher_is_better=False, kind="collective"),
    "allgather": Metric(title="allgather", unit="us", higher_is_better=False, kind="collective"),
    "bcast": Metric(title="bcast", unit="us", higher_is_better=False, kind="collective"),
    "barrier": Metric(
        title="barrier", unit="us", higher_is_better=False, kind="collective", sized=False
    ),
}
