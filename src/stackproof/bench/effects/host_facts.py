"""What results say of the machine that launches are made on."""

from __future__ import annotations

import os

from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.mpi.effects import fabric


def machine() -> dict[str, str]:
    """Return what launches that are compared must have in common."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    uname = os.uname()
    return {"cpu": model, "kernel": f"{uname.sysname} {uname.release}", "machine": uname.machine}


def facts_of(place: LaunchNodes) -> dict[str, str]:
    """Return what results say of the machine that they are from."""
    # In a job this is one of its nodes; those of a cluster on one machine use none of its NICs.
    joined = "" if place.one_machine else fabric.seen_here()
    return {
        **({"fabric": joined} if joined else {}),
        **machine(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "load at start": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        **place.facts,
    }
