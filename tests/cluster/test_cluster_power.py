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
    assert_limited,
    groups,
    held,
    machine,
    marked,
    namespaces,
    program,
    round_trip_us,
    told,
    wait_until,
)
from need import need, works
from stackproof.cluster.effects import power as cluster_power
from stackproof.cluster.effects import slurm as cluster_slurm
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState, enter_argv
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


def test_a_node_that_restarts_is_new_and_in_its_old_place(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    state = cluster_up.up(ClusterSpec(nodes=3, rate="50mbit", shared=(str(first),)))
    cluster_up.share(state, (str(second),))
    told(state, "node2", "touch", "/tmp/mine", "/dev/shm/mine", str(first / "ours"))
    fresh = cluster_power.restart("default", "node2")
    assert fresh == cluster_up.require()
    assert fresh.nodes[1].pid != state.nodes[1].pid
    assert fresh.nodes[::2] == state.nodes[::2]
    assert "mine" not in told(fresh, "node2", "ls", "/tmp", "/dev/shm")
    assert told(fresh, "node2", "ls", str(first)) == "ours"
    assert told(fresh, "node2", "ls", str(second)) == ""
    assert f" {fresh.nodes[1].address}/24 " in told(fresh, "node2", "ip", "-o", "-4", "addr")
    assert program(fresh, "node2", "hostname").stdout == "node2\n"
    assert_limited(fresh, 2_000_000)


def test_a_killed_node_is_a_fault_until_it_restarts() -> None:
    cluster_up.up(ClusterSpec())
    assert cluster_power.kill("default", "node1") is True
    assert cluster_power.kill("default", "node1") is False
    assert faults() == ("`node1` has died",)
    # What is asked of the rest still works.
    cluster_up.share(cluster_up.reach(), ("/usr",))
    assert told(cluster_up.reach(), "node2", "hostname") == "node2"
    fresh = cluster_power.restart("default", "node1")
    assert fresh.faults == ()
    names = namespaces(fresh)
    assert cluster_up.down() is True
    assert wait_until(lambda: not held(names))


def test_the_delay_is_there_after_a_restart() -> None:
    if not works("netem"):
        need("gcc")
    cluster_up.up(ClusterSpec(nodes=3, delay="2ms"))
    cluster_power.kill("default", "node3")
    fresh = cluster_power.restart("default", "node1")
    assert fresh.faults == ("`node3` has died",)
    assert round_trip_us(fresh) >= 4000
    whole = cluster_power.restart("default", "node3")
    assert whole.faults == ()
    assert told(whole, "node3", sys.executable, "-I", "-S", "-c", CONNECT) == "111"
    assert round_trip_us(whole) >= 4000


@pytest.mark.parametrize(
    ("node", "daemon", "reason"),
    [
        ("head", False, Reason.INVALID_VALUE),
        ("node3", False, Reason.NODE_UNREACHABLE),
        ("node1", True, Reason.INVALID_VALUE),
    ],
)
def test_what_cannot_be_killed_is_an_error(node: str, daemon: bool, reason: Reason) -> None:
    cluster_up.up(ClusterSpec())
    for action in (cluster_power.kill, cluster_power.restart):
        with pytest.raises(StackproofError) as caught:
            action("default", node, daemon=daemon)
        assert caught.value.reason is reason
    assert faults() == ()
    cluster_up.down()
    with pytest.raises(StackproofError) as caught:
        cluster_power.kill("default", "node1")
    assert caught.value.reason is Reason.CLUSTER_DOWN


# ------------------------------------------------------------------------------ with Slurm


def test_a_node_that_reboots_in_a_job_is_usable_again() -> None:
    state = with_slurm()
    words = ("srun", "--nodes=2", "--no-kill", "sleep", "60")
    with subprocess.Popen(enter_argv(state, None, words), stderr=subprocess.PIPE) as job:
        assert wait_until(lambda: jobs(state) == "RUNNING")
        assert wait_until(lambda: "sleep" in told(state, "node2", "ps", "-A"))
        fresh = cluster_power.restart("default", "node2")
        assert "sleep" not in told(fresh, "node2", "ps", "-A")
        told(fresh, None, "scancel", "1")
        job.communicate(timeout=600)
    assert wait_until(lambda: states(fresh) == ["idle", "idle"], 30)
    assert sorted(told(fresh, None, "srun", "--nodes=2", "hostname").split()) == ["node1", "node2"]


def test_a_node_that_stayed_away_is_used_again_when_it_restarts() -> None:
    state = with_slurm()
    told(state, None, "sbatch", "--nodes=2", "--no-requeue", "-o", "/dev/null", "--wrap=sleep 60")
    assert wait_until(lambda: jobs(state) == "RUNNING")
    cluster_power.kill("default", "node2")
    # What the controller does by itself after SlurmdTimeout.
    told(state, None, "scontrol", "update", "nodename=node2", "state=down", "reason=away")
    assert wait_until(lambda: jobs(state) == "NODE_FAIL", 20)
    seen = cluster_slurm.node_states(state)[1]
    assert seen.state.startswith("down")
    assert seen.reason == "away"
    fresh = cluster_power.restart("default", "node2")
    assert wait_until(lambda: states(fresh) == ["idle", "idle"], 20)


def test_a_job_outlives_the_slurmd_that_started_it() -> None:
    state = with_slurm(1)
    told(state, None, "sbatch", "-o", "/tmp/out", "--wrap=sleep 1.5; echo done")
    assert wait_until(lambda: "sleep" in told(state, "node1", "ps", "-A"))
    assert cluster_power.kill("default", "node1", daemon=True) is True
    assert faults() == ("`slurmd` on `node1` has died",)
    assert "sleep" in told(state, "node1", "ps", "-A")
    fresh = cluster_power.restart("default", "node1", daemon=True)
    assert fresh.faults == ()
    assert fresh.nodes == state.nodes
    assert wait_until(lambda: jobs(fresh) == "COMPLETED", 20)
    assert told(fresh, "node1", "cat", "/tmp/out") == "done"


def test_the_controller_comes_back() -> None:
    state = with_slurm(1)
    cluster_power.kill("default", "head", daemon=True)
    assert faults() == ("`slurmctld` on `head` has died",)
    assert cluster_slurm.node_states(state) == ()
    fresh = cluster_power.restart("default", "head", daemon=True)
    assert fresh.faults == ()
    assert told(fresh, None, "srun", "hostname") == "node1"


@pytest.mark.parametrize("part", ["head", "munged", "slurmctld", "slurmd", "node1"])
def test_whatever_is_killed_the_next_start_replaces_it(part: str, runtime: Path) -> None:
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
def test_a_start_that_is_killed_leaves_nothing(after: float, runtime: Path) -> None:
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
