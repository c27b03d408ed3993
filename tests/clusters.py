"""Looking into clusters of one machine, for the tests of several files.

from clusters import told

assert told(state, "node1", "hostname") == "node1"
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from stackproof.cluster import model
from stackproof.cluster.effects import cgroups
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterState

SOURCE = str(Path(cluster_up.__file__).parents[2])
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


def inside(
    state: ClusterState, node: str | None, *argv: str, timeout: float = 30, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        model.enter_argv(state, node, argv),
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
        model.enter_argv(state, "node2", (*python, *server)),
        stdout=subprocess.PIPE,
        text=True,
    ) as listening:
        assert listening.stdout is not None
        port = listening.stdout.readline().strip()
        script, *words = client
        said = told(state, "node1", *python, script, state.nodes[1].address, port, *words)
        heard = listening.stdout.read().strip()
        listening.wait(600)
    return said, heard


def throughput(state: ClusterState, total: int) -> float:
    """Return bytes per second of one connection; the first tenth is left out (a full bucket)."""
    _, heard = between(state, (_SERVER, str(total // 10)), (_CLIENT, str(total)))
    return float(heard)


def round_trip_us(state: ClusterState) -> float:
    """Return the quickest echo: a delay holds for each, and what other work adds not for all."""
    said, _ = between(state, (_ECHO,), (_PING,))
    return float(min(json.loads(said)))


def wait_until(condition: Callable[[], bool], seconds: float = 600) -> bool:
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


def groups(runtime: Path, name: str = "default") -> list[str]:
    """Return the control groups that a cluster has."""
    return cgroups.present(runtime / "stackproof" / name)


def program(state: ClusterState, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the agent on the head, as a launcher does."""
    return inside(state, None, state.agent, *words, **env)


def assert_limited(state: ClusterState, total: int) -> None:
    """Assert that a link gives what it should, within a tenth.

    It may never give more. That it gives as much is seen in the best of several tries, since a
    machine that is busy with something else has not always the time.
    """
    assert state.rate_mb_s is not None
    limit = state.rate_mb_s * 1e6 * PAYLOAD
    seen: list[float] = []
    while len(seen) < 20 and (not seen or max(seen) < 0.9 * limit):
        seen.append(throughput(state, total))
        assert seen[-1] < 1.1 * limit
    assert max(seen) > 0.9 * limit, seen
