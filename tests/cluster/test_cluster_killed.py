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
from stackproof.cluster.effects import slurm as cluster_slurm
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmSpec
from stackproof.core.errors import Reason, StackproofError

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]

CONNECT = "import socket; print(socket.socket().connect_ex(('node1', 9)))"  # 111: refused
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
    assert cluster_up.down() is True
    assert wait_until(lambda: not held(names))


@pytest.mark.parametrize(
    ("node", "reason"), [("head", Reason.INVALID_VALUE), ("node3", Reason.NODE_UNREACHABLE)]
)
def test_what_cannot_be_killed_is_an_error(node, reason):
    cluster_up.up(ClusterSpec())
    with pytest.raises(StackproofError) as caught:
        cluster_up.kill("default", node)
    assert caught.value.reason is reason
    assert faults() == ()
    cluster_up.down()
    with pytest.raises(StackproofError) as caught:
        cluster_up.kill("default", "node1")
    assert caught.value.reason is Reason.CLUSTER_DOWN


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
        with pytest.raises(StackproofError) as caught:
            cluster_up.require()
        assert caught.value.reason is Reason.CLUSTER_DOWN
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


@pytest.mark.parametrize("after", [0.05, 0.15, 0.25, 0.35])
def test_a_start_that_is_killed_leaves_nothing(after, runtime):
    need("slurm")
    script = (
        "from stackproof.cluster.model import ClusterSpec\n"
        "from stackproof.cluster.slurm import SlurmSpec\n"
        "from stackproof.cluster.effects import up as cluster\n"
        "print('go', flush=True)\ncluster.up(ClusterSpec(nodes=4, slurm=SlurmSpec()))\n"
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
    state = with_slurm(1)
    assert told(state, None, "srun", "hostname") == "node1"
