"""What dies in a cluster, and what comes back: nodes, Slurm's daemons, the head, a start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusters import (
    groups,
    held,
    machine,
    marked,
    namespaces,
    told,
    wait_until,
)
from need import need
from refusals import refused
from stackproof.cluster.effects import slurm as cluster_slurm
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmSpec
from stackproof.core.errors import Reason

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]

QUICK = SlurmSpec(settings=("KillWait=1",))


def with_slurm(nodes: int = 2, spec: SlurmSpec = QUICK) -> ClusterState:
    need("slurm")
    return cluster_up.up(ClusterSpec(nodes=nodes, slurm=spec))


def states(state: ClusterState) -> list[str]:
    return [node.state for node in cluster_slurm.node_states(state)]


def jobs(state: ClusterState, what: str = "%T") -> str:
    return told(state, None, "squeue", "--noheader", "--states=all", f"--format={what}")


def faults() -> tuple[str, ...]:
    state = cluster_up.status()
    assert state is not None
    return state.faults


# ------------------------------------------------------------------------------ without Slurm


def test_a_killed_node_is_a_fault_until_the_cluster_is_made_again():
    cluster_up.up(ClusterSpec())
    assert cluster_up.kill("default", "node1") is True
    assert cluster_up.kill("default", "node1") is False
    assert faults() == ("`node1` has died",)
    # What is asked of the rest still works.
    cluster_up.share(cluster_up.reach(), ("/usr",))
    assert told(cluster_up.reach(), "node2", "hostname") == "node2"
    fresh = cluster_up.up(ClusterSpec())
    assert fresh.faults == ()
    names = namespaces(fresh)
    assert cluster_up.kill("default", "node2") is True
    assert cluster_up.down() is True
    assert wait_until(lambda: not held(names))


@pytest.mark.parametrize(
    ("node", "reason"), [("head", Reason.INVALID_VALUE), ("node3", Reason.NODE_UNREACHABLE)]
)
def test_what_cannot_be_killed_is_an_error(node, reason):
    cluster_up.up(ClusterSpec())
    with refused(reason):
        cluster_up.kill("default", node)
    assert faults() == ()
    cluster_up.down()
    with refused(Reason.CLUSTER_DOWN):
        cluster_up.kill("default", "node1")


# ------------------------------------------------------------------------------ with Slurm


@pytest.mark.parametrize("part", ["head", "munged", "slurmctld", "slurmd", "node1"])
def test_whatever_is_killed_the_next_start_replaces_it(part, runtime):
    before = machine()
    state = with_slurm()
    names = namespaces(state)
    told(state, None, "sbatch", "--nodes=2", "-o", "/dev/null", "--wrap=srun sleep 60")
    assert wait_until(lambda: "sleep" in told(state, "node2", "ps", "-A"))
    pids = {"head": state.head.pid, "node1": state.nodes[0].pid}
    os.kill(pids.get(part) or pid_of(state, part), signal.SIGKILL)
    if part == "head":
        assert wait_until(lambda: not held(names) and not marked(runtime))
        assert cluster_up.status() is None
    else:
        assert wait_until(lambda: bool(faults()))
        with refused(Reason.CLUSTER_DOWN):
            cluster_up.require()
    assert len(groups(runtime)) == 2  # which the kernel keeps
    again = with_slurm(1)
    assert len(groups(runtime)) == 1
    assert told(again, None, "srun", "hostname") == "node1"
    names = namespaces(again)
    assert cluster_up.down() is True
    assert wait_until(lambda: not held(names) and not marked(runtime))
    assert groups(runtime) == []
    assert machine() == before


def pid_of(state: ClusterState, daemon: str) -> int:
    """Return the pid of a daemon of this cluster as this machine counts."""
    wanted = {os.readlink(f"/proc/{node.pid}/ns/pid") for node in (state.head, *state.nodes)}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text() == f"{daemon}\n" and (
                os.readlink(folder / "ns" / "pid") in wanted
            ):
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"no {daemon}")


@pytest.mark.parametrize(
    ("slurm", "after"),
    [
        *(("None", after) for after in (0.0, 0.02, 0.05, 0.1, 0.15)),
        *(("SlurmSpec()", after) for after in (0.05, 0.15, 0.25, 0.35)),
    ],
)
def test_a_start_that_is_killed_leaves_nothing(slurm, after, runtime):
    if slurm != "None":
        need("slurm")
    script = (
        "from stackproof.cluster.model import ClusterSpec\n"
        "from stackproof.cluster.slurm import SlurmSpec\n"
        "from stackproof.cluster.effects import up as cluster\n"
        "print('go', flush=True)\n"
        f"cluster.up(ClusterSpec(nodes=4, rate='1gbit', slurm={slurm}))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as starting:
        assert starting.stdout is not None
        starting.stdout.readline()
        time.sleep(after)
        starting.kill()
    if cluster_up.status() is None:
        assert wait_until(lambda: not marked(runtime))
    cluster_up.down()
    assert groups(runtime) == []
    if slurm != "None":
        assert told(with_slurm(1), None, "srun", "hostname") == "node1"
    else:
        assert told(cluster_up.up(ClusterSpec(nodes=1)), "node1", "hostname") == "node1"
