"""What every benchmark's results are expressed in."""

from __future__ import annotations

from stackproof.core.value import Value


class Metric(Value):
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


CORE: dict[str, Metric] = {
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
"""What our own program measures, and IMB-MPI1."""

# What OSU's programs measure besides, by their names without `osu_`.
_LATENCIES = (
    "multi_lat", "latency_mt", "latency_mp", "latency_persistent", "put_latency", "get_latency",
    "acc_latency", "get_acc_latency", "cas_latency", "fop_latency", "partitioned_latency",
)  # fmt: skip
_BANDWIDTHS = ("bw_persistent", "bibw_persistent", "put_bw", "get_bw", "put_bibw")
_BOTH_WAYS = ("bibw_persistent", "put_bibw")
_BLOCKING = (
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier",
    "bcast", "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scatter",
    "scatterv",
)  # fmt: skip
_NEIGHBOURS = ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw")
_COLLECTIVES = (
    *(name for name in _BLOCKING if name not in CORE),
    *(f"i{name}" for name in _BLOCKING),
    *(f"{name}_persistent" for name in _BLOCKING if name != "reduce_scatter_block"),
    *(f"{begin}_{name}" for begin in ("neighbor", "ineighbor") for name in _NEIGHBOURS),
)


def _metric(name: str, kind: str) -> Metric:
    bandwidth = kind == "bandwidth"
    return Metric(
        title=name.replace("_", " "),
        unit="MB/s" if bandwidth else "us",
        higher_is_better=bandwidth,
        kind=kind,
        traffic=2 if name in _BOTH_WAYS else 1,
        sized="barrier" not in name,
    )


HALO_MODES = ("indexed", "pack", "neighbour", "persistent", "onesided")
"""Ways of `stackproof-solver` to exchange what a rank needs of its neighbours."""

SOLVER: dict[str, Metric] = {
    f"{part}_{mode}": Metric(
        title=f"{title} ({mode})", unit="us", higher_is_better=False, kind="collective", sized=False
    )
    for mode in HALO_MODES
    for part, title in (("halo", "halo exchange"), ("solve", "solver iteration"))
}
"""What `stackproof-solver` measures, until the slowest rank is done."""

METRICS: dict[str, Metric] = {
    **CORE,
    **SOLVER,
    **{name: _metric(name, "latency") for name in _LATENCIES},
    **{name: _metric(name, "bandwidth") for name in _BANDWIDTHS},
    **{name: _metric(name, "collective") for name in _COLLECTIVES},
}
"""All that results are expressed in."""
