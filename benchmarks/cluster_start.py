"""How long a cluster takes to come up and to go down, without Slurm and with it.

    python benchmarks/cluster_start.py [--starts N]

Prints minimum, median and maximum in seconds of N starts (20 by default) with 2 nodes and of a
quarter of that with 4 and 8. With Slurm, up ends when every node is idle; `srun` is the wall time
of `srun --nodes=ALL hostname` in the cluster that has just come up. Slurm needs root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec
from stackproof.cluster.slurm import SlurmSpec

SIZES = (2, 4, 8)


def seconds(work: Callable[[], object]) -> float:
    """Return the wall time of some work in seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def times(spec: ClusterSpec, starts: int) -> dict[str, list[float]]:
    """Return the times of starts, first jobs and ends of such a cluster."""
    found: dict[str, list[float]] = {"up": [], "srun": [], "down": []}
    for _ in range(starts):
        found["up"].append(seconds(lambda: cluster_up.up(spec)))
        if spec.slurm:
            argv = ("srun", f"--nodes={spec.nodes}", "hostname")
            command = cluster_model.enter_argv(cluster_up.require(spec.name), None, argv)
            found["srun"].append(
                seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))  # noqa: B023 - called at once
            )
        found["down"].append(seconds(lambda: cluster_up.down(spec.name)))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="times of clusters to come up and go down")
    parser.add_argument("--starts", type=int, default=20, help="with 2 nodes; default: 20")
    starts = parser.parse_args().starts
    print(f"{'cluster':12} {'nodes':>5} {'starts':>6}  {'up':20} {'srun':20} {'down':20}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        for name, slurm in (("plain", None), ("with Slurm", SlurmSpec())):
            if slurm and os.geteuid() != 0:
                continue
            for nodes in SIZES:
                count = starts if nodes == SIZES[0] else max(1, starts // 4)
                found = times(ClusterSpec(nodes=nodes, slurm=slurm), count)
                cells = [
                    f"{min(row):.2f} / {statistics.median(row):.2f} / {max(row):.2f}" if row else ""
                    for row in found.values()
                ]
                print(f"{name:12} {nodes:>5} {count:>6}  " + " ".join(f"{c:20}" for c in cells))


if __name__ == "__main__":
    main()
