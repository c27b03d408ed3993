"""Clusters for real: what a node is, what survives nothing and what leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from clusters import SOURCE, held, inside, machine, marked, namespaces, program, told, wait_until
from need import need
from refusals import refused
from stackproof.cluster import model
from stackproof.cluster.effects import node as cluster_node
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.core.effects import shipped
from stackproof.core.errors import Reason

COVERS = ("cluster/effects/state.py",)

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]


# ---------------------------------------------------------------------------------- what a node is


def test_each_node_is_a_machine_of_its_own():
    state = cluster_up.up(ClusterSpec(nodes=3))
    for node in (state.head, *state.nodes):
        assert told(state, node.name, "hostname") == node.name
        assert told(state, node.name, "cat", "/proc/1/comm").startswith("python")
        assert told(state, node.name, "ls", "/dev/shm") == ""
    for node in state.nodes:
        assert told(state, node.name, "ls", "/sys/class/net").split() == ["eth0", "lo"]
        assert f" {node.address}/24 " in told(state, node.name, "ip", "-o", "-4", "addr")
        # Numbers of one length: MPICH with libfabric's shm provider needs them (K89).
        assert int(told(state, node.name, "sh", "-c", "echo $$")) >= 10000
    told(state, "node1", "touch", "/tmp/mine", "/dev/shm/mine")
    for other in ("node2", None):
        assert "mine" not in told(state, other, "ls", "/tmp", "/dev/shm")
    assert len(namespaces(state)) == 4 * 5


def test_there_may_be_as_many_nodes_as_is_said():
    state = cluster_up.up(ClusterSpec(nodes=model.MAX_NODES, delay="1ms"))
    assert not state.faults
    last = f"node{model.MAX_NODES}"
    assert told(state, last, "hostname") == last
    listening = ("sh", "-c", "echo $(cat /etc/hosts | wc -l)")
    assert int(told(state, last, *listening)) == model.MAX_NODES + 3
    assert len({node.pid for node in state.nodes}) == model.MAX_NODES


def test_nodes_know_each_other_by_name():
    state = cluster_up.up(ClusterSpec())
    for here in (None, "node1", "node2"):
        for there in ("head", "node1", "node2"):
            found = told(state, here, "getent", "hosts", there)
            assert found.split() == [model.address_of(there), there]


def test_names_are_found_where_something_is_mounted_below_etc(tmp_path):
    """As in a container: an overlay on /etc would hide it, so only /etc/hosts is replaced."""
    need("root")
    script = (
        "import socket, sys\n"
        "from stackproof.cluster.model import ClusterSpec, enter_argv\n"
        "from stackproof.cluster.effects import up as cluster; from stackproof.core.effects import run\n"
        "from stackproof.core.command import Command\n"
        "state = cluster.up(ClusterSpec())\n"
        "words = ('sh', '-c', 'getent hosts node2; cat /etc/hostname; grep -c overlay.*/etc /proc/mounts')\n"
        "print(run.run(Command(argv=enter_argv(state, 'node1', words))).stdout.decode())\n"
        "cluster.down()\n"
    )
    (tmp_path / "name").write_text("bound\n")
    bind = f"mount --bind {tmp_path}/name /etc/hostname"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{bind} && exec "$@"', "sh", sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True,
        timeout=600, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["10.77.0.2", "node2", "bound", "0"]


def test_processes_that_lost_their_parent_are_reaped():
    state = cluster_up.up(ClusterSpec(nodes=1))
    for where in (None, "node1"):
        told(state, where, "sh", "-c", "for i in 1 2 3; do (sleep 0.05 &); done")
        assert wait_until(lambda: " Z" not in told(state, where, "ps", "-A", "-o", "pid,stat"))  # noqa: B023
        assert wait_until(lambda: "sleep" not in told(state, where, "ps", "-A"))  # noqa: B023


def test_a_path_of_tmp_is_seen_when_it_is_shared(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    state = cluster_up.up(ClusterSpec(shared=(str(first),)))
    (first / "word").write_text("one")
    second.mkdir()
    (second / "word").write_text("two")
    assert told(state, "node2", "cat", str(first / "word")) == "one"
    if str(tmp_path).startswith("/tmp/"):
        assert inside(state, "node2", "cat", str(second / "word")).returncode != 0
    cluster_up.share(state, (str(second / "word"), str(second), "/usr"))
    cluster_up.share(state, (str(second),))
    for node in (None, "node1", "node2"):
        assert told(state, node, "cat", str(second / "word")) == "two"
    told(state, "node1", "sh", "-c", f"echo three > {second}/word")
    assert (second / "word").read_text() == "three\n"


def test_a_checkout_below_tmp_is_seen_with_what_comes_with_it():
    """The package, and in a checkout the folders beside it: an arm may be a recipe's name."""
    checkout = shipped.root("recipes").parent
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        for part in ("src/stackproof", *shipped.KINDS):
            shutil.copytree(checkout / part, Path(name) / part)
        own = {**os.environ, "PYTHONPATH": f"{name}/src"}
        words = [sys.executable, "-m", "stackproof"]
        subprocess.run([*words, "cluster", "up", "--nodes", "1"], env=own, check=True, timeout=600,
                       capture_output=True, cwd="/")  # fmt: skip
        try:
            done = subprocess.run(
                [*words, "cluster", "exec", "--on", "node1", "--", *words, "recipe", "ls"],
                env=own, check=False, timeout=600, capture_output=True, text=True, cwd="/",
            )  # fmt: skip
        finally:
            subprocess.run([*words, "cluster", "down"], env=own, check=True, timeout=600,
                           capture_output=True, cwd="/")  # fmt: skip
    assert "mpich" in done.stdout.split(), done.stderr


def test_a_link_below_tmp_is_followed():
    """Whether it is shared from the start or later, and once more."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("first", "later"):
            (Path(folder) / name).mkdir()
            (Path(folder) / name / "word").write_text(name)
        first, later = Path(folder) / "to-folder", Path(folder) / "to-file"
        first.symlink_to("first")
        later.symlink_to("later/word")
        state = cluster_up.up(ClusterSpec(shared=(str(first),)))
        cluster_up.share(state, (str(later),))
        cluster_up.share(state, (str(later),))
        assert told(state, "node1", "cat", str(first / "word")) == "first"
        assert told(state, "node1", "cat", str(later)) == "later"
        with refused(Reason.FILE_MISSING):
            cluster_up.share(state, ("/tmp/there-is-nothing",))


# ------------------------------------------------------------------------------ nothing left behind


def test_twenty_clusters_leave_nothing(runtime):
    before = machine()
    names: set[str] = set()
    for number in range(20):
        state = cluster_up.up(ClusterSpec(nodes=1 + number % 3, rate="1gbit"))
        assert told(state, "node1", "hostname") == "node1"
        names |= namespaces(state)
        assert cluster_up.down() is True
        assert cluster_up.status() is None
    assert wait_until(lambda: not held(names))
    assert wait_until(lambda: not marked(runtime))
    assert machine() == before
    assert list((runtime / "stackproof").iterdir()) == [runtime / "stackproof" / ".default.lock"]


def parts(state: ClusterState) -> dict[str, int]:
    """Return the pids of the processes that a cluster stands on."""

    def parent(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1])

    return {
        "head": state.head.pid,
        "unshare of the head": parent(state.head.pid),
    }


@pytest.mark.parametrize("part", ["head", "unshare of the head"])
def test_killing_what_it_stands_on_ends_everything(part, runtime):
    before = machine()
    state = cluster_up.up(ClusterSpec(rate="1gbit"))
    names = namespaces(state)
    with subprocess.Popen(model.enter_argv(state, "node1", ("sleep", "60"))) as job:
        os.kill(parts(state)[part], signal.SIGKILL)
        assert job.wait(600) != 0
    assert wait_until(lambda: not held(names) and not marked(runtime))
    # The kernel lets a head's namespaces go before the head itself is gone.
    assert wait_until(lambda: cluster_up.status() is None)
    assert machine() == before
    # The folder of the dead one is no obstacle, and no reason to think that it lives.
    again = cluster_up.up(ClusterSpec(nodes=1))
    assert told(again, "node1", "hostname") == "node1"


def test_down_finds_a_cluster_whose_folder_was_deleted(runtime):
    state = cluster_up.up(ClusterSpec())
    names = namespaces(state)
    for entry in Path(state.folder).iterdir():
        entry.unlink()
    Path(state.folder).rmdir()
    assert cluster_up.status() is None
    assert cluster_up.down() is True
    assert wait_until(lambda: not held(names) and not marked(runtime))


def test_a_node_that_died_is_seen_and_replaced():
    state = cluster_up.up(ClusterSpec(rate="1gbit"))
    os.kill(state.nodes[1].pid, signal.SIGKILL)
    assert wait_until(lambda: bool(cluster_up.status().faults))  # type: ignore[union-attr]
    seen = cluster_up.status()
    assert seen is not None
    assert [node.alive for node in (seen.head, *seen.nodes)] == [True, True, False]
    with refused(Reason.CLUSTER_DOWN, "--rate 1gbit"):
        cluster_up.require()
    # The agent's 255, or, while the kernel still ends the node, the end that the node meets.
    assert program(state, "node2", "true").returncode in {255, -signal.SIGKILL}
    done = program(state, "node1", "true")
    assert done.returncode == 0, done.stderr
    fresh = cluster_up.up(ClusterSpec(rate="1gbit"))
    assert fresh.faults == ()
    assert fresh.head.pid != state.head.pid


def test_a_node_that_dies_as_the_cluster_comes_up_takes_nobody_along(monkeypatch):
    """All nodes were ready, and the head learns last that the cluster stays."""
    real = cluster_node.send

    def kill_first(link: socket.socket, message: dict[str, Any]) -> None:
        if "stay" in message:
            seen = cluster_up.status()
            assert seen is not None
            os.kill(seen.nodes[1].pid, signal.SIGKILL)
            assert wait_until(lambda: bool(cluster_up.status().faults))  # type: ignore[union-attr]
        real(link, message)

    def settled() -> bool:
        output = f"/proc/{state.head.pid}/fd/1"
        return not os.path.exists(f"/proc/{state.head.pid}") or os.readlink(output) == os.devnull

    monkeypatch.setattr(cluster_node, "send", kill_first)
    state = cluster_up.up(ClusterSpec())
    assert wait_until(settled)
    assert told(state, "node1", "hostname") == "node1"
    seen = cluster_up.status()
    assert seen is not None
    assert [node.alive for node in (seen.head, *seen.nodes)] == [True, True, False]


def test_two_clusters_do_not_meet():
    one = cluster_up.up(ClusterSpec(name="one", nodes=1))
    two = cluster_up.up(ClusterSpec(name="two", nodes=2))
    assert not namespaces(one) & namespaces(two)
    assert inside(one, "node1", "getent", "hosts", "node2").returncode != 0
    assert cluster_up.down("one") is True
    assert cluster_up.require("two").nodes == two.nodes
    assert told(two, "node2", "hostname") == "node2"


def test_up_again_is_no_work_for_the_same_and_an_error_for_another():
    state = cluster_up.up(ClusterSpec(rate="1gbit"))
    assert cluster_up.up(ClusterSpec(rate="1000mbit")).head == state.head
    for other in (ClusterSpec(nodes=3, rate="1gbit"), ClusterSpec(), ClusterSpec(rate="2gbit")):
        with refused(Reason.BUSY):
            cluster_up.up(other)
    assert cluster_up.require().head == state.head


def test_two_starts_at_once_give_one_cluster():
    states: list[ClusterState] = []
    threads = [
        threading.Thread(target=lambda: states.append(cluster_up.up(ClusterSpec())))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({state.head.pid for state in states}) == 1


def test_what_a_launch_left_can_be_ended():
    state = cluster_up.up(ClusterSpec())
    for node in ("node1", "node2"):
        told(state, node, "sh", "-c", "setsid sleep 60 >/dev/null 2>&1 &")
    cluster_up.end_processes(state)
    for node in ("node1", "node2"):
        assert wait_until(lambda: "sleep" not in told(state, node, "ps", "-A"))  # noqa: B023
    assert cluster_up.require().faults == ()
