"""What results say of themselves: what is compared, and on which machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

import stackproof
from stackproof.bench.effects import arms as bench_arms
from stackproof.bench.effects import deciding, launching
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.spec import BenchSpec
from stackproof.mpi.effects import fabric
from stackproof.results.case import Placement
from stackproof.results.model import ResultsSpec


def results_spec(
    spec: BenchSpec,
    arms: Arms,
    place: LaunchNodes,
    placements: Mapping[str, Placement],
    command: tuple[str, ...],
) -> ResultsSpec:
    """Return the content of `bench.json` for a bench."""
    rate = place.rate_mb_s
    limits: dict[str, dict[str, object]] = {}
    for name, placement in placements.items():
        if rate is not None and len(placement.nodes) > 1:
            limits[name] = {"MB/s": rate, "source": "the rate that the cluster's links were given"}
    return ResultsSpec(
        name=spec.name,
        baseline=arms.baseline,
        challengers=arms.challengers,
        null=arms.null,
        margins=dict(spec.margins),
        launches=spec.launches,
        looks=deciding.looks_of(spec),
        equal=spec.equal,
        seed=spec.seed,
        created=launching.now(),
        arms={name: bench_arms.compared(ready) for name, ready in arms.by_name.items()},
        host=facts_of(place),
        limits=limits,
        command=command,
        stackproof=stackproof.__version__,
        versions={"python": platform.python_version()},
    )


def machine() -> dict[str, str]:
    """Return the facts of the machine that compared launches must share."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    uname = os.uname()
    return {"cpu": model, "kernel": f"{uname.sysname} {uname.release}", "machine": uname.machine}


def facts_of(place: LaunchNodes) -> dict[str, str]:
    """Return the facts of the machine for the results."""
    # In a job this is one of its nodes; those of a cluster on one machine use none of its NICs.
    joined = "" if place.one_machine else fabric.seen_here()
    return {
        **({"fabric": joined} if joined else {}),
        **machine(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "load at start": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        **place.facts,
    }
