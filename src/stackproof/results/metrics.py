"""What every benchmark's results are expressed in."""

from __future__ import annotations

from typing import Any

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


def _metric(name: str, kind: str, **more: Any) -> Metric:
    bandwidth = kind == "bandwidth"
    known = {
        "title": name.replace("_", " "),
        "unit": "MB/s" if bandwidth else "us",
        "higher_is_better": bandwidth,
        "traffic": 2 if name in _BOTH_WAYS else 1,
        "sized": "barrier" not in name,
    }
    return Metric(kind=kind, **{**known, **more})


_BOTH_WAYS = ("bibandwidth", "bibw_persistent", "put_bibw")
CORE: dict[str, Metric] = {
    "latency": _metric("latency", "latency"),
    "bandwidth": _metric("bandwidth", "bandwidth"),
    "bibandwidth": _metric("bibandwidth", "bandwidth", title="bidirectional bandwidth"),
    "message_rate": _metric("message_rate", "rate", unit="msg/s", higher_is_better=True),
    **{
        name: _metric(name, "collective")
        for name in ("allreduce", "alltoall", "allgather", "bcast", "barrier")
    },
}
"""What our own program measures, and IMB-MPI1."""

# What OSU's programs measure besides, by their names without `osu_`.
_LATENCIES = (
    "multi_lat", "latency_mt", "latency_mp", "latency_persistent", "put_latency", "get_latency",
    "acc_latency", "get_acc_latency", "cas_latency", "fop_latency", "partitioned_latency",
)  # fmt: skip
_BANDWIDTHS = ("bw_persistent", "bibw_persistent", "put_bw", "get_bw", "put_bibw")
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


HALO_MODES = ("indexed", "pack", "neighbour", "persistent", "onesided")
"""Ways of `stackproof-solver` to exchange what a rank needs of its neighbours."""

SOLVER: dict[str, Metric] = {
    f"{part}_{mode}": _metric(part, "collective", title=f"{title} ({mode})", sized=False)
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
