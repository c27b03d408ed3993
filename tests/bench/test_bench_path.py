"""Which way the messages of a bench go: told by a probe, checked at every launch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchroom import CLUSTER, stackproof, write_spec

COVERS = ("bench/effects/path_probe.py",)

pytestmark = pytest.mark.machine


def test_traffic_of_others_discards_no_launch(room: Path) -> None:
    """What others send on a node's interface is no reason against an arm, however slow it is."""
    slow = {"LD_PRELOAD": str(room / "slowsend.so"), "STACKPROOF_SLOWSEND_NS": "200000"}
    inside = {
        "name": "inside", "ranks": [{"node": "node1", "cpu": 0}, {"node": "node1", "cpu": 1}]
    }  # fmt: skip
    spec = write_spec(
        room, "others",
        challengers=[{"name": "slow", "image": "mpich.squashfs", "env": slow}],
        sizes=[1 << 20], samples=20, launches=2, placements=[inside],
        **{"seconds-per-size": 0.05},
    )  # fmt: skip
    blast = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "while True:\n"
        "    for _ in range(4):\n"
        "        s.sendto(bytes(60000), ('127.0.0.1', 9))\n"
        "    time.sleep(0.01)\n"
    )
    argv = ("cluster", "exec", "--name", CLUSTER, "--on", "node1", "--", sys.executable, "-c")
    others = subprocess.Popen(
        [sys.executable, "-m", "stackproof", *argv, blast], cwd=room,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        stackproof("bench", spec, "-o", "others", "--no-verdict", cwd=room)
    finally:
        others.terminate()
        others.wait(600)
    for path in (room / "others" / "launches").iterdir():
        launch = json.loads(path.read_text())
        (check,) = [one for one in launch["checks"] if one["name"] == "transport"]
        assert check["state"] == "cannot tell", check
        assert "there was other traffic" in check["evidence"]


def test_the_wrong_path_ends_a_bench_before_it_is_timed(room: Path) -> None:
    """Each arm has variables that send its messages elsewhere; all are told at once."""
    tcp = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
    spec = write_spec(
        room, "wrong",
        baseline={"name": "good", "image": "mpich.squashfs"},
        challengers=[
            {"name": "by-tcp", "image": "mpich.squashfs", "env": tcp},
            {
                "name": "by-sockets", "image": "mpich.squashfs",
                "transports": {"intra-node": "tcp"}, "env": {"FI_PROVIDER": "sockets"},
            },
        ],
        **{"null-arm": True},
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "wrong", cwd=room, ok=(7,))
    assert done.stderr.count("error: ") == 2
    assert "`FI_PROVIDER` is `tcp`, where the transport sets `shm`" in done.stderr
    assert "libfabric's `sockets`, not by `tcp`" in done.stderr
    assert not (room / "wrong" / "launches").exists()
    states = {
        path.name: [route["state"] for route in json.loads(path.read_text())["routes"]]
        for path in (room / "wrong" / "probes").iterdir()
    }
    assert states == {
        "good-intra-node-0.json": ["ok"],
        "good-again-intra-node-0.json": ["ok"],
        "by-tcp-intra-node-0.json": ["bad"],
        "by-sockets-intra-node-0.json": ["bad"],
    }


def test_every_launch_carries_what_the_probe_said_and_a_probe_is_used_again(room: Path) -> None:
    spec = write_spec(room, "path")
    stackproof("bench", spec, "-o", "path", "--no-verdict", cwd=room)
    (probe,) = (room / "path" / "probes").iterdir()
    found, before = json.loads(probe.read_text()), probe.stat().st_mtime_ns
    assert [(route["state"], route["pairs"]) for route in found["routes"]] == [("ok", [[0, 1]])]
    assert found["settings"]["MPIR_CVAR_DEBUG_SUMMARY"] == "1"
    launches = sorted((room / "path" / "launches").iterdir())
    for path in launches:
        launch = json.loads(path.read_text())
        assert [c["state"] for c in launch["checks"] if c["name"] == "path"] == ["ok"]
        assert set(found["settings"]).isdisjoint(launch["env"])
        assert "-prepend-rank" not in launch["argv"]
    launches[0].unlink()
    stackproof("bench", spec, "-o", "path", "--no-verdict", cwd=room)
    again = json.loads(probe.read_text())
    assert again["started"] == found["started"]
    # One that found a fault, or is of something else, is made again.
    for change in ({"identity": "0" * 64}, {"quiet": "it hung"}):
        probe.write_text(json.dumps({**found, **change, "started": "2000-01-01T00:00:00+00:00"}))
        launches[0].unlink()
        stackproof("bench", spec, "-o", "path", "--no-verdict", cwd=room)
        assert json.loads(probe.read_text())["started"] > found["started"][:4]
        assert json.loads(probe.read_text())["quiet"] == ""
    assert before


def test_an_mpi_that_fails_when_it_talks_is_measured_all_the_same(room: Path) -> None:
    """A program that breaks when it may log is run once more in peace; then it cannot be told."""
    spec = write_spec(
        room, "shy",
        baseline={"name": "shy", "image": "faulty.squashfs", "env": {"FAULT": "shy"}},
    )  # fmt: skip
    stackproof("bench", spec, "-o", "shy", "--no-verdict", cwd=room)
    (probe,) = (room / "shy" / "probes").iterdir()
    found = json.loads(probe.read_text())
    assert found["quiet"]
    assert found["settings"] == {}
    assert [route["state"] for route in found["routes"]] == ["cannot tell"]
    launch = json.loads(next((room / "shy" / "launches").iterdir()).read_text())
    (path,) = [check for check in launch["checks"] if check["name"] == "path"]
    assert path["state"] == "cannot tell"
    assert "could not be made to talk" in path["evidence"]


def test_a_second_interface_of_the_nodes_is_theirs_and_slower(room: Path) -> None:
    """One arm's messages leave by hsn0 of the nodes, which carries less; this machine has none."""
    name = "test-second"
    stackproof("cluster", "up", "--nodes", "2", "--name", name, cwd=room)
    try:
        for number in (1, 2):
            lines = (
                "ip link add link eth0 name hsn0 type macvlan mode bridge && "
                f"ip address add 10.99.0.{number}/24 dev hsn0 && ip link set hsn0 up && "
                "tc qdisc replace dev hsn0 root tbf rate 100mbit burst 64k latency 100ms"
            )
            node = ("cluster", "exec", "--name", name, "--on", f"node{number}", "--")
            stackproof(*node, "sh", "-c", lines, cwd=room)

        def over(interface: str) -> dict[str, object]:
            env = {"FI_TCP_IFACE": interface, "UCX_NET_DEVICES": interface}
            return {
                "name": interface, "image": "mpich.squashfs", "env": env,
                "transports": {"inter-node": "auto"},
            }  # fmt: skip

        far = {"name": "far", "ranks": [{"node": f"node{n}", "cpu": n - 1} for n in (1, 2)]}
        spec = write_spec(
            room, "second",
            baseline=over("eth0"), challengers=[over("hsn0")],
            benchmarks=["latency", "bandwidth"], sizes=[8, 1 << 18], placements=[far], window=16,
            cluster=name, launches=2,
        )  # fmt: skip
        stackproof("bench", spec, "-o", "second", "--no-verdict", cwd=room)
    finally:
        stackproof("cluster", "down", "--name", name, cwd=room)
    for path in (room / "second" / "launches").iterdir():
        launch = json.loads(path.read_text())
        sent = launch["output"]["ranks"][0]["tx_bytes"]
        assert (sent["hsn0"] > 1 << 20) is (launch["arm"] == "hsn0"), (sent, launch["env"])
    words = ("doctor", "--results", "second", "--arm", "hsn0", "--json")
    told = json.loads(stackproof(*words, cwd=room).stdout)
    facts = told["evidence"]["facts"]
    assert facts["interface-missing"] is False, told["evidence"]
    said = " ".join(stackproof("doctor", "--results", "second", cwd=room).stdout.split())
    assert "different interfaces of the nodes: " in said
    assert "hsn0 over eth0, hsn0" in said  # it is a second address on the wire of eth0
    assert "K66" not in [one["rule"] for one in told["findings"] if one["answer"] == "fires"]


def test_paths_of_one_mpi_and_more_ranks_than_cpus(room: Path) -> None:
    """Two paths are told apart, and what has no CPU of its own is checked and never timed."""
    ranks = 2 * len(os.sched_getaffinity(0))
    spec = write_spec(
        room, "paths",
        challengers=[
            {"name": "tcp", "image": "mpich.squashfs",
             "transports": {"intra-node": "tcp", "inter-node": "tcp"}},
            {"name": "shm", "image": "mpich.squashfs",
             "transports": {"intra-node": "shm"}, "placements": ["intra-node"]},
        ],
        benchmarks=["latency", "alltoall"],
        validated=[f"2x{ranks // 2}"],
    )  # fmt: skip
    stackproof("bench", spec, "-o", "paths", "--no-verdict", cwd=room)
    done = stackproof("compare", "paths", "--json", cwd=room, ok=(0, 8, 9))
    comparison = json.loads(done.stdout)
    intra = next(p for p in comparison["panels"] if p["curve"]["benchmark"] == "latency")
    assert {(arm["arm"], arm["transport"]) for arm in intra["arms"]} == {
        ("base", "shm"), ("tcp", "tcp"), ("shm", "shm"),
    }  # fmt: skip
    assert {p["curve"]["placement"] for p in comparison["panels"]} == {"intra-node"}
    checked = comparison["validated"]
    assert {(one["arm"], one["ranks"], one["state"]) for one in checked} == {
        ("base", ranks, "ok"), ("tcp", ranks, "ok"),
    }  # fmt: skip
    assert all(one["benchmarks"] == ["alltoall"] and one["received"] > 0 for one in checked)
    assert len(comparison["rankings"]) == 1
    crowded = write_spec(room, "crowded", placements=[f"2x{ranks // 2}"], benchmarks=["alltoall"])
    refused = stackproof("bench", crowded, "-o", "crowded", cwd=room, ok=(3,))
    assert "validated" in refused.stderr
    assert not (room / "crowded").exists()
