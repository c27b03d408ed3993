"""Clusters for real: namespaces, links, what survives nothing and what leaves nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from need import as_unprivileged, need, private_namespaces, works
from stackproof import cluster
from stackproof.cluster import ClusterSpec, ClusterState
from stackproof.errors import Reason, StackproofError
from stackproof.host import cluster as host_cluster
from stackproof.host.agent import started

SOURCE = str(Path(host_cluster.__file__).parents[2])
# Of 1514 bytes on the link 1448 are a user's: 14 Ethernet, 20 IP, 32 TCP with time stamps.
PAYLOAD = 1448 / 1514

_SERVER = """
import socket, sys, time
server = socket.create_server(("", 0))
print(server.getsockname()[1], flush=True)
link, _ = server.accept()
total, skip, begin, first = 0, int(sys.argv[1]), 0.0, 0
while data := link.recv(1 << 18):
    total += len(data)
    if not begin and total >= skip:
        begin, first = time.monotonic(), total
print((total - first) / (time.monotonic() - begin))
"""
_CLIENT = """
import socket, sys
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
link.sendall(bytes(int(sys.argv[3])))
"""
_ECHO = """
import socket
server = socket.create_server(("", 0))
print(server.getsockname()[1], flush=True)
link, _ = server.accept()
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while data := link.recv(1):
    link.sendall(data)
"""
_PING = """
import json, socket, sys, time
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(60):
    begin = time.perf_counter()
    link.sendall(b"x")
    link.recv(1)
    times.append((time.perf_counter() - begin) * 1e6)
print(json.dumps(times[10:]))
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test its own folder of clusters, and take down what it leaves."""
    need("netns")
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    for entry in (folder / "stackproof").glob("*/"):
        host_cluster.down(entry.name)


def inside(
    state: ClusterState, node: str | None, *argv: str, timeout: float = 30, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        cluster.enter_argv(state, node, argv),
        env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=timeout, check=False,
    )  # fmt: skip


def told(state: ClusterState, node: str | None, *argv: str, **env: str) -> str:
    done = inside(state, node, *argv, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def between(
    state: ClusterState, server: tuple[str, ...], client: tuple[str, ...]
) -> tuple[str, str]:
    """Run a server on node2 and its client on node1; return what both said in the end."""
    python = (sys.executable, "-I", "-S", "-c")
    with subprocess.Popen(
        cluster.enter_argv(state, "node2", (*python, *server)), stdout=subprocess.PIPE, text=True
    ) as listening:
        assert listening.stdout is not None
        port = listening.stdout.readline().strip()
        script, *words = client
        said = told(state, "node1", *python, script, state.nodes[1].address, port, *words)
        heard = listening.stdout.read().strip()
        listening.wait(30)
    return said, heard


def throughput(state: ClusterState, total: int) -> float:
    """Return bytes per second of one connection; the first tenth is left out (a full bucket)."""
    _, heard = between(state, (_SERVER, str(total // 10)), (_CLIENT, str(total)))
    return float(heard)


def round_trip_us(state: ClusterState) -> float:
    said, _ = between(state, (_ECHO,), (_PING,))
    return statistics.median(json.loads(said))


def wait_until(condition: Callable[[], bool], seconds: float = 5) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def namespaces(state: ClusterState) -> set[str]:
    """Return the namespaces that a cluster has of its own."""
    found = {
        os.readlink(f"/proc/{node.pid}/ns/{kind}")
        for node in (state.head, *state.nodes)
        for kind in ("net", "mnt", "uts", "ipc", "pid")
    }
    ours = {os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt", "uts", "ipc", "pid")}
    assert not found & ours
    return found


def held(names: set[str]) -> list[str]:
    """Return the processes of this machine that are in one of these namespaces."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            links = {os.readlink(entry) for entry in (folder / "ns").iterdir()}
            if links & names:
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


def marked(folder: Path) -> list[str]:
    """Return the processes of this machine whose command line names a folder of clusters."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in text and b"cluster_node" in text:
            found.append(text.decode())
    return found


def machine() -> tuple[str, list[str], list[str]]:
    """Return what a cluster could leave on this machine: interfaces, mounts, control groups."""
    links = subprocess.run(["ip", "-o", "link"], stdout=subprocess.PIPE, text=True, check=True)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    return links.stdout, mounts, groups


def program(state: ClusterState, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the agent on the head, as a launcher does."""
    return inside(state, None, state.agent, *words, **env)


# ---------------------------------------------------------------------------------- what a node is


def test_each_node_is_a_machine_of_its_own() -> None:
    state = host_cluster.up(ClusterSpec(nodes=3))
    for node in (state.head, *state.nodes):
        assert told(state, node.name, "hostname") == node.name
        assert told(state, node.name, "cat", "/proc/1/comm").startswith("python")
        assert told(state, node.name, "ls", "/dev/shm") == ""
    for node in state.nodes:
        assert told(state, node.name, "ls", "/sys/class/net").split() == ["eth0", "lo"]
        assert f" {node.address}/24 " in told(state, node.name, "ip", "-o", "-4", "addr")
    told(state, "node1", "touch", "/tmp/mine", "/dev/shm/mine")
    for other in ("node2", None):
        assert "mine" not in told(state, other, "ls", "/tmp", "/dev/shm")
    assert len(namespaces(state)) == 4 * 5


def test_nodes_know_each_other_by_name() -> None:
    state = host_cluster.up(ClusterSpec())
    for here in (None, "node1", "node2"):
        for there in ("head", "node1", "node2"):
            found = told(state, here, "getent", "hosts", there)
            assert found.split() == [cluster.address_of(there), there]


def test_names_are_found_where_something_is_mounted_below_etc(tmp_path: Path) -> None:
    """As in a container: an overlay on /etc would hide it, so only /etc/hosts is replaced."""
    need("root")
    script = (
        "import socket, sys\n"
        "from stackproof.cluster import ClusterSpec, enter_argv\n"
        "from stackproof.host import cluster, run\n"
        "from stackproof.command import Command\n"
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
        timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["10.77.0.2", "node2", "bound", "0"]


def test_processes_that_lost_their_parent_are_reaped() -> None:
    state = host_cluster.up(ClusterSpec(nodes=1))
    for where in (None, "node1"):
        told(state, where, "sh", "-c", "for i in 1 2 3; do (sleep 0.05 &); done")
        assert wait_until(lambda: " Z" not in told(state, where, "ps", "-A", "-o", "pid,stat"))  # noqa: B023
        assert wait_until(lambda: "sleep" not in told(state, where, "ps", "-A"))  # noqa: B023


def test_a_path_of_tmp_is_seen_when_it_is_shared(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    state = host_cluster.up(ClusterSpec(shared=(str(first),)))
    (first / "word").write_text("one")
    second.mkdir()
    (second / "word").write_text("two")
    assert told(state, "node2", "cat", str(first / "word")) == "one"
    if str(tmp_path).startswith("/tmp/"):
        assert inside(state, "node2", "cat", str(second / "word")).returncode != 0
    host_cluster.share(state, (str(second / "word"), str(second), "/usr"))
    host_cluster.share(state, (str(second),))
    for node in (None, "node1", "node2"):
        assert told(state, node, "cat", str(second / "word")) == "two"
    told(state, "node1", "sh", "-c", f"echo three > {second}/word")
    assert (second / "word").read_text() == "three\n"


def test_sharing_what_is_not_there_is_an_error() -> None:
    state = host_cluster.up(ClusterSpec(nodes=1))
    with pytest.raises(StackproofError) as caught:
        host_cluster.share(state, ("/tmp/there-is-nothing",))
    assert caught.value.reason is Reason.FILE_MISSING


# ------------------------------------------------------------------------------ nothing left behind


def test_twenty_clusters_leave_nothing(runtime: Path) -> None:
    before = machine()
    names: set[str] = set()
    for number in range(20):
        state = host_cluster.up(ClusterSpec(nodes=1 + number % 3, rate="1gbit"))
        assert told(state, "node1", "hostname") == "node1"
        names |= namespaces(state)
        assert host_cluster.down() is True
        assert host_cluster.status() is None
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
def test_killing_what_it_stands_on_ends_everything(part: str, runtime: Path) -> None:
    before = machine()
    state = host_cluster.up(ClusterSpec(rate="1gbit"))
    names = namespaces(state)
    with subprocess.Popen(cluster.enter_argv(state, "node1", ("sleep", "60"))) as job:
        os.kill(parts(state)[part], signal.SIGKILL)
        assert job.wait(10) != 0
    assert wait_until(lambda: not held(names) and not marked(runtime))
    assert host_cluster.status() is None
    assert machine() == before
    # The folder of the dead one is no obstacle, and no reason to think that it lives.
    again = host_cluster.up(ClusterSpec(nodes=1))
    assert told(again, "node1", "hostname") == "node1"


@pytest.mark.parametrize("after", [0.0, 0.02, 0.05, 0.1, 0.15])
def test_a_start_that_is_killed_leaves_nothing(after: float, runtime: Path) -> None:
    script = (
        "from stackproof.cluster import ClusterSpec\nfrom stackproof.host import cluster\n"
        "print('go', flush=True)\ncluster.up(ClusterSpec(nodes=4, rate='1gbit'))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as starting:
        assert starting.stdout is not None
        starting.stdout.readline()
        time.sleep(after)
        starting.kill()
    if host_cluster.status() is None:
        assert wait_until(lambda: not marked(runtime))
        assert told(host_cluster.up(ClusterSpec(nodes=1)), "node1", "hostname") == "node1"


def test_down_finds_a_cluster_whose_folder_was_deleted(runtime: Path) -> None:
    state = host_cluster.up(ClusterSpec())
    names = namespaces(state)
    for entry in Path(state.folder).iterdir():
        entry.unlink()
    Path(state.folder).rmdir()
    assert host_cluster.status() is None
    assert host_cluster.down() is True
    assert wait_until(lambda: not held(names) and not marked(runtime))


def test_a_node_that_died_is_seen_and_replaced() -> None:
    state = host_cluster.up(ClusterSpec(rate="1gbit"))
    os.kill(state.nodes[1].pid, signal.SIGKILL)
    assert wait_until(lambda: bool(host_cluster.status().faults))  # type: ignore[union-attr]
    seen = host_cluster.status()
    assert seen is not None
    assert [node.alive for node in (seen.head, *seen.nodes)] == [True, True, False]
    with pytest.raises(StackproofError) as caught:
        host_cluster.require()
    assert caught.value.reason is Reason.CLUSTER_DOWN
    assert "--rate 1gbit" in str(caught.value)
    # The agent's 255, or, while the kernel still ends the node, the end that the node meets.
    assert program(state, "node2", "true").returncode in {255, -signal.SIGKILL}
    assert program(state, "node1", "true").returncode == 0
    fresh = host_cluster.up(ClusterSpec(rate="1gbit"))
    assert fresh.faults == ()
    assert fresh.head.pid != state.head.pid


def test_a_broken_cluster_goes_down() -> None:
    state = host_cluster.up(ClusterSpec())
    names = namespaces(state)
    os.kill(state.nodes[0].pid, signal.SIGKILL)
    assert host_cluster.down() is True
    assert wait_until(lambda: not held(names))


def test_two_clusters_do_not_meet() -> None:
    one = host_cluster.up(ClusterSpec(name="one", nodes=1))
    two = host_cluster.up(ClusterSpec(name="two", nodes=2))
    assert not namespaces(one) & namespaces(two)
    assert inside(one, "node1", "getent", "hosts", "node2").returncode != 0
    assert host_cluster.down("one") is True
    assert host_cluster.require("two").nodes == two.nodes
    assert told(two, "node2", "hostname") == "node2"


def test_up_again_is_no_work_for_the_same_and_an_error_for_another() -> None:
    state = host_cluster.up(ClusterSpec(rate="1gbit"))
    assert host_cluster.up(ClusterSpec(rate="1000mbit")).head == state.head
    for other in (ClusterSpec(nodes=3, rate="1gbit"), ClusterSpec(), ClusterSpec(rate="2gbit")):
        with pytest.raises(StackproofError) as caught:
            host_cluster.up(other)
        assert caught.value.reason is Reason.BUSY
    assert host_cluster.require().head == state.head


def test_two_starts_at_once_give_one_cluster() -> None:
    states: list[ClusterState] = []
    threads = [
        threading.Thread(target=lambda: states.append(host_cluster.up(ClusterSpec())))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({state.head.pid for state in states}) == 1


def test_what_a_launch_left_can_be_ended() -> None:
    state = host_cluster.up(ClusterSpec())
    for node in ("node1", "node2"):
        told(state, node, "sh", "-c", "setsid sleep 60 >/dev/null 2>&1 &")
    host_cluster.end_processes(state)
    for node in ("node1", "node2"):
        assert wait_until(lambda: "sleep" not in told(state, node, "ps", "-A"))  # noqa: B023
    assert host_cluster.require().faults == ()


# ------------------------------------------------------------------------------------ rate and delay


def assert_limited(state: ClusterState, total: int) -> None:
    """Assert that a link gives what it should, within a tenth.

    It may never give more. That it gives as much is seen in the best of several tries, since a
    machine that is busy with something else has not always the time.
    """
    assert state.rate_mb_s is not None
    limit = state.rate_mb_s * 1e6 * PAYLOAD
    seen: list[float] = []
    while len(seen) < 6 and (not seen or max(seen) < 0.9 * limit):
        seen.append(throughput(state, total))
        assert seen[-1] < 1.1 * limit
    assert max(seen) > 0.9 * limit, seen


@pytest.mark.parametrize(
    ("rate", "total"), [("50mbit", 2_000_000), ("20MB/s", 6_000_000), ("500mbit", 20_000_000)]
)
def test_the_rate_is_kept(rate: str, total: int) -> None:
    assert_limited(host_cluster.up(ClusterSpec(rate=rate)), total)


def test_the_rate_changes_while_it_is_up() -> None:
    state = host_cluster.up(ClusterSpec())
    slow = host_cluster.set_link(state, rate="100mbit", delay=None)
    assert slow.rate_mb_s == 12.5
    assert host_cluster.require() == slow
    assert_limited(slow, 4_000_000)
    again = host_cluster.set_link(slow, rate=None, delay=None)
    assert again.rate_mb_s is None
    assert throughput(again, 40_000_000) > 5 * 12.5e6


def test_both_directions_have_the_rate_at_once() -> None:
    state = host_cluster.up(ClusterSpec(rate="100mbit"))
    turned = replace(state, nodes=state.nodes[::-1])
    turned = replace(
        turned,
        nodes=tuple(
            replace(node, name=name)
            for node, name in zip(turned.nodes, ("node1", "node2"), strict=True)
        ),
    )
    rates: list[float] = []
    threads = [
        threading.Thread(target=lambda side=side: rates.append(throughput(side, 4_000_000)))
        for side in (state, turned)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Acknowledgements of the other direction take a share of the link.
    assert len(rates) == 2
    assert min(rates) > 12.5e6 * PAYLOAD * 0.7


@pytest.mark.parametrize(("delay", "asked_us"), [("200us", 200), ("2ms", 2000)])
def test_the_delay_is_there(delay: str, asked_us: float) -> None:
    if not works("netem"):
        need("gcc")
    state = host_cluster.up(ClusterSpec(delay=delay))
    assert state.delay is not None
    assert state.delay.method == ("netem" if works("netem") else "switch")
    assert state.delay.seen_us is not None
    assert 0.8 * asked_us <= state.delay.seen_us
    # Once per direction, and whatever the scheduler of a busy machine adds to it.
    assert 2 * asked_us <= round_trip_us(state) < 2 * asked_us + 1500


def test_delay_and_rate_go_together() -> None:
    if not works("netem"):
        need("gcc")
    state = host_cluster.up(ClusterSpec(rate="100mbit", delay="500us"))
    assert round_trip_us(state) >= 1000
    assert_limited(state, 4_000_000)


def test_the_delay_comes_and_goes_while_it_is_up() -> None:
    if not works("netem"):
        need("gcc")
    state = host_cluster.up(ClusterSpec(nodes=3))
    slow = host_cluster.set_link(state, rate=None, delay="3ms")
    assert round_trip_us(slow) >= 6000
    # Every pair and the head still reach each other.
    for here in (None, "node1", "node3"):
        for there in (node.address for node in (slow.head, *slow.nodes)):
            script = f"import socket; socket.socket().connect_ex(('{there}', 9)) in (0, 111) or 1/0"
            told(slow, here, sys.executable, "-I", "-S", "-c", script)
    rated = host_cluster.set_link(slow, rate="1gbit", delay="3ms")
    assert rated.delay == slow.delay
    quick = host_cluster.set_link(rated, rate=None, delay=None)
    assert quick.delay is None
    assert round_trip_us(quick) < 3000


def test_a_dead_delay_switch_is_a_fault() -> None:
    if works("netem"):
        pytest.skip("this kernel delays packets itself")
    need("gcc")
    state = host_cluster.up(ClusterSpec(delay="1ms"))
    assert state.delay is not None
    assert started(state.delay.pid) == state.delay.started
    os.kill(state.delay.pid, signal.SIGKILL)
    assert wait_until(lambda: bool(host_cluster.status().faults))  # type: ignore[union-attr]
    assert host_cluster.up(ClusterSpec(delay="1ms")).faults == ()


def test_one_node_can_have_a_delay_that_nobody_measured() -> None:
    if not works("netem"):
        need("gcc")
    state = host_cluster.up(ClusterSpec(nodes=1, delay="1ms"))
    assert state.delay is not None
    assert state.delay.seen_us is None


def test_without_netem_and_compiler_there_is_an_error_and_no_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: Path
) -> None:
    if works("netem"):
        pytest.skip("this kernel delays packets itself")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ip", "tc", "unshare", "nsenter", "setsid", "env", "sh"):
        (folder / name).symlink_to(told_which(name))
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(StackproofError) as caught:
        host_cluster.up(ClusterSpec(delay="1ms", shared=(str(tmp_path),)))
    assert caught.value.reason is Reason.TOOL_MISSING
    assert host_cluster.status() is None
    assert wait_until(lambda: not marked(runtime))


def told_which(name: str) -> str:
    folders = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    found = [Path(folder) / name for folder in folders.split(":") if (Path(folder) / name).exists()]
    return os.path.realpath(found[0])


# ----------------------------------------------------------------------------------------- the agent


def test_the_agent_runs_the_words_of_the_launcher_on_the_node() -> None:
    state = host_cluster.up(ClusterSpec())
    done = program(state, "-x", "node2", "hostname;", "echo", "$COLOUR", "'a  b'", COLOUR="red")
    assert done.stdout == "node2\nred a  b\n"
    assert done.returncode == 0
    assert program(state, "node1", "exit", "7").returncode == 7
    assert program(state, "node1", "echo", "$TMPDIR", TMPDIR="/var/x").stdout == "/tmp\n"
    assert len(shlex.split(state.agent)) == 1


def test_a_node_that_is_not_there_is_255_as_with_ssh() -> None:
    state = host_cluster.up(ClusterSpec(nodes=1))
    done = program(state, "node2", "true")
    assert done.returncode == 255
    assert "node2" in done.stderr


def test_the_agent_works_on_the_head_only() -> None:
    state = host_cluster.up(ClusterSpec(nodes=1))
    done = subprocess.run(
        [state.agent, "node1", "true"], stderr=subprocess.PIPE, text=True, timeout=30, check=False
    )
    assert done.returncode == 255
    assert "not the head" in done.stderr


def test_the_agent_mounts_images_on_the_node_only(tmp_path: Path) -> None:
    need("mksquashfs", "root")
    folder, image = tmp_path / "source", tmp_path / "image.squashfs"
    folder.mkdir()
    (folder / "word").write_text("from the image\n")
    subprocess.run(
        ["mksquashfs", folder, image, "-quiet", "-no-progress"],
        stdout=subprocess.DEVNULL, timeout=60, check=True,
    )  # fmt: skip
    state = host_cluster.up(ClusterSpec(shared=(str(tmp_path),)))
    mounts = f"{image}:/user-word"
    done = program(state, "node1", "cat /user-word/word; hostname", STACKPROOF_MOUNTS=mounts)
    assert done.stdout == "from the image\nnode1\n", done.stderr
    assert "/user-word" not in told(state, "node1", "cat", "/proc/mounts")
    missing = program(state, "node1", "true", STACKPROOF_MOUNTS=f"{image}.not:/mnt")
    assert missing.returncode == 6


# -------------------------------------------------------------------------------------- without root

_ROOTLESS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import test_cluster as t
from stackproof.cluster import ClusterSpec
from stackproof.host import cluster
state = cluster.up(ClusterSpec(rate="100mbit"))
names = t.namespaces(state)
t.assert_limited(state, 4_000_000)
facts = {
    "rootless": state.rootless,
    "uid": os.getuid(),
    "names": [t.told(state, n, "hostname") for n in (None, "node1", "node2")],
    "network": t.told(state, "node1", "ls", "/sys/class/net").split(),
    "agent": t.program(state, "node2", "hostname").stdout,
    "same": cluster.up(ClusterSpec(rate="100mbit")).head == state.head,
    "faster": cluster.set_link(state, rate="1gbit", delay=None).rate_mb_s,
}
if sys.argv[2] == "delay":
    facts["trip"] = t.round_trip_us(cluster.set_link(state, rate=None, delay="2ms"))
cluster.end_processes(state)
facts["down"] = cluster.down()
facts["gone"] = t.wait_until(lambda: not t.held(names))
print(json.dumps(facts))
"""


def test_a_user_without_rights_has_a_cluster(tmp_path: Path) -> None:
    need("root", "unprivileged-user", "unprivileged-userns")
    packages = str(Path(pytest.__file__).parents[1])
    path = os.pathsep.join((SOURCE, packages, str(Path(__file__).parents[1])))
    delay = "delay" if works("netem") or works("gcc") else "none"
    # A folder of that user's own: what pytest makes is root's, and closed to others.
    # The shell stays as the first process of the namespace: it reaps orphans, and Python would not.
    script = 'mount -t tmpfs -o mode=0700,uid=65534,gid=65534 none /mnt; cd /; "$@"; exit $?'
    argv = as_unprivileged(
        [python_for_everybody(path), "-c", _ROOTLESS, str(Path(__file__).parent), delay]
    )
    done = subprocess.run(
        [*private_namespaces(), "sh", "-c", script, "sh", *argv],
        env={
            "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": "/mnt", "HOME": "/mnt",
            "STACKPROOF_CACHE": "/mnt/cache", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    trip = facts.pop("trip", 4000)
    assert facts == {
        "rootless": True,
        "uid": 65534,
        "names": ["head", "node1", "node2"],
        "network": ["eth0", "lo"],
        "agent": "node2\n",
        "same": True,
        "faster": 125,
        "down": True,
        "gone": True,
    }
    assert trip >= 4000


def python_for_everybody(path: str) -> str:
    """Return an interpreter that users without rights may run, with everything that is needed."""
    check = (
        "import sys, msgspec, pytest, stackproof.host.cluster; sys.exit(sys.version_info < (3, 11))"
    )
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        done = subprocess.run(
            # By env(1): the first program after setpriv(1) may still be found with root's rights.
            as_unprivileged(["env", candidate, "-c", check]),
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/", stderr=subprocess.DEVNULL, timeout=60, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return candidate
    pytest.skip("no Python here that users without rights may run")


def test_no_namespaces_is_an_error_that_says_so(runtime: Path) -> None:
    """A user namespace in which no further one may be made, and no right to do without."""
    need("root", "unprivileged-user")
    script = (
        "import ctypes, os, sys\n"
        "from stackproof.cluster import ClusterSpec\nfrom stackproof.errors import StackproofError\n"
        "from stackproof.host import cluster, cluster_state\n"
        "open('/proc/sys/user/max_net_namespaces', 'w').write('0')\n"
        "try:\n    cluster.up(ClusterSpec())\n"
        "except StackproofError as error:\n    print(error.reason, os.listdir(cluster_state.base()))\n"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split(maxsplit=1)[0] in {"no-user-namespaces", "not-permitted"}
    assert done.stdout.split(maxsplit=1)[1] == "['.default.lock']\n"
    assert marked(runtime) == []


def test_a_full_disk_is_an_error_that_leaves_no_cluster(tmp_path: Path) -> None:
    need("root")
    script = (
        "import os\n"
        "from stackproof.cluster import ClusterSpec\nfrom stackproof.errors import StackproofError\n"
        "from stackproof.host import cluster, cluster_state\n"
        "folder = cluster_state.base()\n"
        "try:\n    open('/mnt/filler', 'wb').write(bytes(1 << 20))\nexcept OSError:\n    pass\n"
        "try:\n    cluster.up(ClusterSpec(rate='1gbit'))\n"
        "except StackproofError as error:\n    print(error.reason)\n"
        "print(cluster.status())\n"
        "print([e for e in os.scandir('/proc') if e.name.isdigit() and b'host/cluster_' + b'node' in\n"
        "       open(f'{e.path}/cmdline', 'rb').read()])\n"
    )
    mount = 'mount -t tmpfs -o size=64k,mode=0700 none /mnt && exec "$@"'
    done = subprocess.run(
        [*private_namespaces(), "sh", "-c", mount, "sh", sys.executable, "-c", script],
        env={**os.environ, "XDG_RUNTIME_DIR": "/mnt", "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n")[:3] == ["disk-full", "None", "[]"]
