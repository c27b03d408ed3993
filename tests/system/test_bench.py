"""The road's second half for real: images on two nodes, planted causes, everything that can go wrong.

One MPICH image serves all arms, so that whatever differs is what was planted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from need import need
from pythonpage import programs
from stackproof.host.results import load_results

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "test-bench"
WRAPPER = """#!/bin/sh
# Stands in the place of the benchmark program and fails as $FAULT says.
real=/user-environment/benchmarks/real-bench
# A rank that has ended stays a zombie until all who can write to its launcher are gone.
busy='while read -r pid name state rest <"/proc/$1/stat" && [ "$state" != Z ]; do :; done'
case ${FAULT:-none} in
crash) case ${PMI_RANK:-0} in 1) kill -SEGV $$ ;; esac; exec $real "$@" ;;
hang) [ "${PMI_RANK:-0}" = 1 ] && exec sleep 600; exec $real "$@" ;;
garbage) echo 'Segmentation fault (not really)'; echo '{"record": "start"'; exit 0 ;;
cut) $real "$@" | head -n 4; exit 0 ;;
alone) exec env -u PMI_FD -u PMI_RANK -u PMI_SIZE -u PMI_PORT -u PMI_ID $real "$@" ;;
shy) [ -z "${MPIR_CVAR_DEBUG_SUMMARY:-}" ] || exit 3; exec $real "$@" ;;
flip) STACKPROOF_WRONGBYTE_SIZE=4096 LD_PRELOAD=$FLIP exec $real "$@" ;;
flip-once)  # one rank of the first launch that checks all bytes, and of no other
    case "${PMI_RANK:-0} $*" in 1*"--check all"*)
        mkdir "$ONCE" 2>/dev/null && STACKPROOF_WRONGBYTE_SIZE=4096 LD_PRELOAD=$FLIP exec $real "$@"
    esac ;;
flip-timed)  # every launch that is timed, and not the one before them that checks all bytes
    case "$*" in *"--check sample"*)
        STACKPROOF_WRONGBYTE_SIZE=4096 LD_PRELOAD=$FLIP exec $real "$@"
    esac ;;
busy)  # a loop on the CPU of every rank that is timed, which gets most of it
    case "$*" in *"--check sample"*)
        nice -n -5 sh -c "$busy" busy-loop $$ 2>/dev/null &
    esac ;;
crash-once)  # the first launch that is timed
    case "${PMI_RANK:-0} $*" in 1*"--check sample"*) mkdir "$ONCE" 2>/dev/null && kill -SEGV $$ ;; esac
esac
exec $real "$@"
"""


def stackproof(
    *words: object, cwd: Path, ok: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", *map(str, words)],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=540,
    )  # fmt: skip
    assert done.returncode in ok, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the image, an image that fails on demand, preloads and a cluster that is up."""
    need("network", "bubblewrap", "mksquashfs", "netns", "gcc", "root")
    folder = tmp_path_factory.mktemp("bench")
    shutil.copy(ROOT / "recipes" / "mpich.yaml", folder)
    old = os.environ.get("STACKPROOF_CACHE")
    os.environ["STACKPROOF_CACHE"] = str(folder / "cache")
    try:
        stackproof("build", "mpich.yaml", cwd=folder)
        _faulty_image(folder)
        for name in ("slowsend", "wrongbyte"):
            source = ROOT / "tests" / "csrc" / f"{name}.c"
            compiler = ("mpicc", "-shared", "-fPIC", "-O1", "-o", f"{name}.so", source)
            stackproof("run", "mpich.squashfs", "--", *compiler, cwd=folder)
        stackproof(
            "cluster", "up", "--nodes", "2", "--rate", "2gbit", "--name", CLUSTER, cwd=folder
        )
        yield folder
    finally:
        stackproof("cluster", "down", "--name", CLUSTER, cwd=folder)
        if old is None:
            del os.environ["STACKPROOF_CACHE"]
        else:
            os.environ["STACKPROOF_CACHE"] = old


def _faulty_image(folder: Path) -> None:
    def run(*argv: str) -> None:
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)

    run("unsquashfs", "-no-progress", "-d", "tree", "mpich.squashfs")
    bench = folder / "tree" / "benchmarks"
    (bench / "stackproof-bench").rename(bench / "real-bench")
    (bench / "stackproof-bench").write_text(WRAPPER)
    (bench / "stackproof-bench").chmod(0o755)
    run("mksquashfs", "tree", "faulty.squashfs", "-comp", "lz4", "-no-progress", "-quiet")


def write_spec(folder: Path, name: str, **changes: object) -> str:
    spec = {
        "baseline": {"name": "base", "image": "mpich.squashfs"},
        "null-arm": False,
        "benchmarks": ["latency"],
        "sizes": [8, 4096],
        "placements": ["intra-node"],
        "launches": 1,
        "samples": 5,
        "seconds-per-size": 0.005,
        "timeout": 20,
        "cluster": CLUSTER,
        **changes,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(spec))
    return f"{name}.yaml"


def verdicts(comparison: dict[str, object], arm: str) -> dict[tuple[str, str, int], str]:
    found = {}
    for panel in comparison["panels"]:  # type: ignore[attr-defined]
        for judgement in panel["judgements"]:
            if judgement["arm"] == arm:
                curve = panel["curve"]
                for cell in judgement["cells"]:
                    found[curve["placement"], curve["benchmark"], cell["size"]] = cell["verdict"]
    return found


def test_planted_causes_are_found_where_they_are_and_nowhere_else(room: Path) -> None:
    """A slower link and a wait in sends must FAIL at the sizes they affect, and only there."""
    spec = write_spec(
        room, "planted",
        **{
            "null-arm": True,
            "challengers": [
                {"name": "same", "image": "mpich.squashfs"},
                {"name": "slow-link", "image": "mpich.squashfs", "rate": "500mbit"},
                {
                    "name": "slow-send", "image": "mpich.squashfs",
                    "env": {
                        "LD_PRELOAD": str(room / "slowsend.so"),
                        "STACKPROOF_SLOWSEND_NS": "400000",
                        "STACKPROOF_SLOWSEND_MIN": "4096",
                    },
                },
            ],
            "benchmarks": ["latency", "bandwidth"],
            "sizes": [8, 4096, 1 << 20],
            "placements": ["intra-node", "inter-node"],
            "launches": 10,
            "samples": 10,
        },
    )  # fmt: skip
    for attempt in range(3):
        done = stackproof("bench", spec, "-o", f"planted-{attempt}", "--json", cwd=room, ok=(8, 9))
        comparison = json.loads(done.stdout)
        if done.returncode == 8:
            break
        assert '"disturbed"' in done.stdout  # others at the ranks' CPUs: rightly no verdict
    assert "FAIL" not in verdicts(comparison, "base-again").values()
    assert "FAIL" not in verdicts(comparison, "same").values()
    link = verdicts(comparison, "slow-link")
    failed = {key for key, verdict in link.items() if verdict == "FAIL"}
    assert ("inter-node", "bandwidth", 1 << 20) in failed
    assert ("inter-node", "latency", 1 << 20) in failed
    assert all(place == "inter-node" and size > 8 for place, _, size in failed), failed
    send = verdicts(comparison, "slow-send")
    failed = {key for key, verdict in send.items() if verdict == "FAIL"}
    assert {("intra-node", "latency", 4096), ("inter-node", "latency", 4096)} <= failed
    assert all(size >= 4096 for _, _, size in failed), failed


def test_doctor_has_nothing_against_a_good_image_and_its_launches(room: Path) -> None:
    spec = write_spec(room, "good", placements=["intra-node", "inter-node"], launches=2)
    stackproof("bench", spec, "-o", "good", "--no-verdict", cwd=room)
    alone, measured = ("mpich.squashfs",), ("mpich.squashfs", "--results", "good")
    for words in (alone, measured):
        told = json.loads(stackproof("doctor", *words, "--json", cwd=room).stdout)
        found = {one["rule"] for one in told["findings"] if one["answer"] == "fires"}
        # Where others keep this machine's cores busy, that is so.
        assert found <= ({"K83"} if words is measured else set())


def test_an_interrupted_bench_continues(room: Path) -> None:
    spec = write_spec(room, "again", launches=2)
    stackproof("bench", spec, "-o", "again", "--no-verdict", cwd=room)
    launches = sorted((room / "again" / "launches").iterdir())
    assert len(launches) == 3
    before = {path.name: path.stat().st_mtime_ns for path in launches}
    launches[1].unlink()
    stackproof("bench", spec, "-o", "again", "--no-verdict", cwd=room)
    after = {path.name: path.stat().st_mtime_ns for path in (room / "again" / "launches").iterdir()}
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name]] == [launches[1].name]


def test_a_dry_run_says_what_would_run_and_writes_nothing(room: Path) -> None:
    more = {"challengers": [{"name": "ours", "image": "mpich.squashfs"}], "launches": 3}
    spec = write_spec(room, "dry", placements=["intra-node", "inter-node"], **more)
    done = stackproof("bench", spec, "-o", "dry", "--dry-run", cwd=room)
    assert "16 launches: 2 arms, 2 placements, 1 + 3 blocks" in done.stdout
    assert "inter-node: ranks 1 on node1, 1 on node2" in done.stdout
    assert "decide nothing" in done.stdout
    plan = json.loads(
        stackproof("bench", spec, "-o", "dry", "--dry-run", "--json", cwd=room).stdout
    )
    assert [arm["name"] for arm in plan["arms"]] == ["base", "ours"]
    assert (plan["launches"], plan["launches_left"]) == (16, 16)
    assert 3 < plan["seconds"] < 60
    assert plan["looks"] is None
    words = ("bench", spec, "-o", "dry", "--dry-run", "--until-decided", "--budget", "30s")
    said = stackproof(*words, cwd=room).stdout
    assert re.search(r"until the first look, \d+ s at most; nothing was measured", said), said
    assert "after 8, 11, 15, 21, 29 and 40 launches per arm it is looked" in said
    plan = json.loads(stackproof(*words, "--json", cwd=room).stdout)
    assert plan["launches"] == 2 * 2 * 41
    assert plan["looks"]["after"] == [8, 11, 15, 21, 29, 40]
    # Probes, and four launches that only check bytes, come beside the budget.
    assert 5 < plan["looks"]["seconds_to_first"] <= plan["seconds"]
    assert 30 + 4 < plan["seconds"] < 60
    assert not (room / "dry").exists()
    wrong = write_spec(room, "dry-wrong", sizes={"from": "4 MiB", "to": 1})
    refused = stackproof("bench", wrong, "--dry-run", cwd=room, ok=(3,))
    assert "no power of two" in refused.stderr


def test_ctrl_c_says_how_to_go_on_and_so_it_does(room: Path) -> None:
    spec = write_spec(room, "stopped", launches=6)
    words = ("bench", spec, "-o", "stopped", "--no-verdict")
    process = subprocess.Popen(
        [sys.executable, "-m", "stackproof", *words],
        cwd=room, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = []
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            said.append(line)
            if line.startswith("ok [3/7]"):
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert "7 launches: 1 arm, 1 placement, 1 + 6 blocks  about " in "".join(said[:4])
    assert sum(line.startswith("ok [") for line in said) == 3
    assert "left" in next(line for line in said if line.startswith("ok [3/7]"))
    assert "3 of 7 launches have results" in "".join(said[-2:])
    assert "the same command makes the others" in said[-1]
    again = stackproof(*words, cwd=room)
    made = [line.split("]")[0] for line in again.stderr.splitlines() if line.startswith("ok [")]
    assert made == [f"ok [{number}/7" for number in range(4, 8)]


def test_results_of_another_specification_are_not_mixed(room: Path) -> None:
    stackproof("bench", write_spec(room, "one"), "-o", "mixed", "--no-verdict", cwd=room)
    other = write_spec(room, "two", sizes=[16])
    done = stackproof("bench", other, "-o", "mixed", cwd=room, ok=(2,))
    assert "another specification" in done.stderr
    (room / "full").mkdir()
    (room / "full" / "thesis.tex").write_text("precious")
    stackproof("bench", other, "-o", "full", cwd=room, ok=(2,))
    assert [p.name for p in (room / "full").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("crash", "rank-crashed"),
        ("hang", "job-timeout"),
        ("garbage", "garbage-output"),
        ("cut", "truncated-output"),
        ("alone", "singletons"),
        ("flip", "validation-failed"),
    ],
)
@pytest.mark.parametrize("placement", ["intra-node", "inter-node"])
def test_a_launch_that_fails_never_becomes_a_number(
    room: Path, fault: str, reason: str, placement: str
) -> None:
    """What fails always is seen by the probe; wrong bytes by the first launch, which looks."""
    name = f"{fault}-{placement}"
    spec = write_spec(
        room, name,
        baseline={
            "name": "bad", "image": "faulty.squashfs",
            "env": {"FAULT": fault, "FLIP": str(room / "wrongbyte.so")},
        },
        placements=[placement],
        timeout=4,
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", name, cwd=room, ok=(7,))
    assert "hint: " in done.stderr
    seen = list((room / name / ("launches" if fault == "flip" else "probes")).iterdir())
    assert seen
    for path in seen:
        launch = json.loads(path.read_text())
        bad = {check["reason"] for check in launch["checks"] if check["state"] == "bad"}
        # Hydra does not always notice a rank that died on another node before it had started MPI.
        late = {"job-timeout"} if (fault, placement) == ("crash", "inter-node") else set()
        assert bad & {reason, *late}, (bad, done.stderr)
    assert fault == "flip" or not (room / name / "launches").exists()
    assert list((room / name / "logs").iterdir())
    assert stackproof("compare", name, cwd=room, ok=(7,)).stdout == ""
    left = subprocess.run(
        ["pgrep", "-f", "real-bench|sleep 600"], capture_output=True, text=True, check=False
    )
    assert left.stdout == ""


@pytest.mark.parametrize(
    ("fault", "wrong", "when"),
    [("flip-once", 1, "block 0"), ("flip-timed", 2, "block 1")],
)
def test_wrong_bytes_once_fail_the_arm_and_are_not_tried_away(
    room: Path, fault: str, wrong: int, when: str
) -> None:
    """One launch before the timed ones, then a clean one; or only launches that are timed."""
    bad = {"FAULT": fault, "FLIP": str(room / "wrongbyte.so"), "ONCE": str(room / f"{fault}.once")}
    spec = write_spec(
        room, fault,
        challengers=[{"name": "bad", "image": "faulty.squashfs", "env": bad}],
        launches=2, **{"null-arm": True},
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", fault, "--json", cwd=room, ok=(8,))
    comparison = json.loads(done.stdout)
    (verdict,) = [one for one in comparison["verdicts"] if one["arm"] == "bad"]
    assert verdict["verdict"] == "FAIL"
    assert f"wrong bytes in {wrong} of 3 launches" in verdict["sentence"]
    assert when in verdict["sentence"]
    assert "latency of 4096 B" in verdict["sentence"]
    assert "rank 1 received" in verdict["sentence"]
    assert "at offset 4095" in verdict["sentence"]
    launches = [path.name for path in (room / fault / "launches").iterdir()]
    assert not any("-bad-" in name and "failed" in name for name in launches)
    told = stackproof("compare", fault, cwd=room, ok=(8,)).stdout
    assert "bad received wrong bytes" in told
    stackproof("report", fault, "-o", f"{fault}.html", cwd=room)
    assert "bad received wrong bytes" in (room / f"{fault}.html").read_text()


def test_a_core_that_others_keep_busy_is_no_fail_of_the_mpi_that_spins_there(room: Path) -> None:
    """The ratio alone would be a FAIL, and the null arm, which nobody disturbs, is quiet."""
    spec = write_spec(
        room, "busy",
        challengers=[{"name": "busy", "image": "faulty.squashfs", "env": {"FAULT": "busy"}}],
        sizes=[65536], launches=10, timeout=60, **{"null-arm": True},
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "busy", "--json", cwd=room, ok=(9,))
    comparison = json.loads(done.stdout)
    ((cell,),) = [
        one["cells"] for one in comparison["panels"][0]["judgements"] if one["arm"] == "busy"
    ]
    assert cell["high"] < 1 - cell["margin"]
    assert (cell["verdict"], cell["why"]) == ("INCONCLUSIVE", "disturbed")
    assert "FAIL" not in verdicts(comparison, "base-again").values()
    told = " ".join(note["text"] for note in comparison["notes"])
    found = re.search(r"in (\d+) of 33 launches something else was at a rank's CPU", told)
    assert found, told
    assert int(found[1]) >= 10
    assert "the verdicts on" in told
    asked = ("doctor", "--results", "busy", "--arm", "busy", "--json")
    doctor = json.loads(stackproof(*asked, cwd=room).stdout)
    assert next(one["rule"] for one in doctor["findings"] if one["answer"] == "fires") == "K83"
    left = subprocess.run(["pgrep", "-f", "busy-loop"], capture_output=True, text=True, check=False)
    assert left.stdout == ""


def test_a_failed_launch_has_its_whole_block_made_again(room: Path) -> None:
    bad = {"FAULT": "crash-once", "ONCE": str(room / "crash.once")}
    spec = write_spec(
        room, "whole",
        challengers=[{"name": "bad", "image": "faulty.squashfs", "env": bad}], launches=1,
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "whole", "--no-verdict", cwd=room)
    assert "block 1 at intra-node is made again, since bad failed" in done.stderr
    launches = sorted(path.name for path in (room / "whole" / "launches").iterdir())
    assert len([name for name in launches if "failed1" in name]) == 1
    assert len(launches) == 5
    (aside,) = (room / "whole" / "set-aside").iterdir()
    assert "base" in aside.name


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
        others.wait(30)
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


def test_a_node_that_is_not_there(room: Path) -> None:
    placement = {"name": "far", "ranks": [{"node": "node1", "cpu": 0}, {"node": "node9", "cpu": 1}]}
    spec = write_spec(room, "far", placements=[placement])
    done = stackproof("bench", spec, "-o", "far", cwd=room, ok=(7,))
    assert "node9" in done.stderr
    assert not (room / "far").exists()


def test_no_cluster(room: Path) -> None:
    spec = write_spec(room, "none", placements=["inter-node"], cluster="nowhere")
    done = stackproof("bench", spec, "-o", "none", cwd=room, ok=(4,))
    assert "stackproof cluster up" in done.stderr


def test_a_slow_way_back_is_seen_by_both_directions_together(room: Path) -> None:
    """What the second node sends is held up for real; one-way tests see nothing of it."""
    stackproof("cluster", "up", "--nodes", "2", "--name", "test-way-back", cwd=room)
    try:
        node = ("cluster", "exec", "--name", "test-way-back", "--on", "node2", "--")
        slow = "tc qdisc replace dev eth0 root tbf rate 400mbit burst 256k latency 100ms"
        stackproof(*node, "sh", "-c", slow, cwd=room)
        spec = write_spec(
            room, "way-back",
            benchmarks=["bandwidth", "bibandwidth"], sizes=[1 << 20], placements=["inter-node"],
            launches=2, cluster="test-way-back",
        )  # fmt: skip
        stackproof("bench", spec, "-o", "way-back", "--no-verdict", cwd=room)
    finally:
        stackproof("cluster", "down", "--name", "test-way-back", cwd=room)
    told = json.loads(stackproof("doctor", "--results", "way-back", "--json", cwd=room).stdout)
    (mark,) = [one for one in told["curves"] if one["rule"] == "S22"]
    assert "MB/s both ways" in mark["seen"]


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


def test_an_image_that_is_replaced_is_not_mixed_in(room: Path) -> None:
    """Each launch mounts the image: no number of the other one stands under the first's digest."""
    shutil.copy(room / "mpich.squashfs", room / "ours.squashfs")
    shutil.copy(room / "faulty.squashfs", room / "other.squashfs")
    spec = write_spec(room, "replaced", baseline={"image": "ours.squashfs"}, launches=4)
    words = ("bench", spec, "-o", "replaced", "--no-verdict")
    process = subprocess.Popen(
        [sys.executable, "-m", "stackproof", *words],
        cwd=room, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = []
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            said.append(line)
            if line.startswith("ok [2/5]"):
                (room / "ours.squashfs").rename(room / "aside.squashfs")
                (room / "other.squashfs").rename(room / "ours.squashfs")
        assert process.wait(timeout=60) == 6
    assert "was replaced while it was measured" in "".join(said)
    launches = room / "replaced" / "launches"
    made = {path.name: path.stat().st_mtime_ns for path in launches.iterdir()}
    assert 2 <= len(made) < 5
    refused = stackproof(*words, cwd=room, ok=(2,))
    assert "of another specification or of other images" in refused.stderr
    (room / "aside.squashfs").rename(room / "ours.squashfs")
    stackproof(*words, cwd=room)
    after = {path.name: path.stat().st_mtime_ns for path in launches.iterdir()}
    assert len(after) == 5
    assert made.items() <= after.items()


def test_the_wire_of_a_slow_link_is_named_and_tcp_that_was_asked_for(room: Path) -> None:
    spec = write_spec(
        room, "wire",
        baseline={
            "name": "base", "image": "mpich.squashfs", "rate": "100mbit",
            "transports": {"inter-node": "tcp"},
        },
        benchmarks=["bandwidth"], sizes=[8, 1 << 16, 1 << 18, 1 << 20], window=4,
        placements=["inter-node"], launches=2,
    )  # fmt: skip
    stackproof("bench", spec, "-o", "wire", "--no-verdict", cwd=room)
    told = json.loads(stackproof("doctor", "--results", "wire", "--json", cwd=room).stdout)
    (mark,) = [one for one in told["curves"] if one["rule"] == "S01"]
    words = "that is what a link of 100 Mbit/s carries, as asked: it was forced on tcp"
    assert words in mark["seen"]


def test_only_one_node_is_left(room: Path) -> None:
    """A node that died is noticed before anything is measured, not by a launch that hangs."""
    stackproof("cluster", "up", "--nodes", "2", "--name", "test-half", cwd=room)
    try:
        told = stackproof("cluster", "status", "--name", "test-half", "--json", cwd=room).stdout
        nodes = {node["name"]: node["pid"] for node in json.loads(told)["nodes"]}
        os.kill(nodes["node2"], signal.SIGKILL)
        spec = write_spec(room, "half", placements=["inter-node"], cluster="test-half")
        done = stackproof("bench", spec, "-o", "half", cwd=room, ok=(4,))
        assert "node2" in done.stderr
        assert "stackproof cluster up" in done.stderr
    finally:
        stackproof("cluster", "down", "--name", "test-half", cwd=room)


def test_bad_arms_are_reported_together(room: Path) -> None:
    spec = write_spec(
        room, "arms",
        baseline={"image": "missing.squashfs"},
        challengers=[{"image": "mpich.yaml"}, {"image": "mpich.squashfs", "view": "nope"}],
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "arms", cwd=room, ok=(6,))
    assert done.stderr.count("error: ") == 3


def test_short_form_needs_no_specification_and_no_cluster(room: Path) -> None:
    done = stackproof(
        "bench", "--baseline", "mpich.squashfs", "--launches", "1", "--placement", "intra-node",
        "--cluster", "nowhere", "-o", "short", "--no-verdict", cwd=room,
    )  # fmt: skip
    assert done.stdout == "short\n"
    stackproof("bench", "-o", "x", cwd=room, ok=(2,))
    stackproof("bench", "absent.yaml", "-o", "x", cwd=room, ok=(3,))


def test_a_program_measures_as_the_page_on_python_says(
    room: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = room / "python"
    folder.mkdir()
    for name in ("vendor", "mine"):
        (folder / f"{name}.squashfs").symlink_to("../mpich.squashfs")
    monkeypatch.chdir(folder)
    text = programs()["Measure"]
    few = text.replace("launches=10", "launches=1")
    assert few != text
    exec(compile(few, "measure.py", "exec"), {"__name__": "__main__"})
    assert "launches in results" in capsys.readouterr().out
    results = load_results("results")
    assert {one.arm for one in results.measurements} >= {"vendor", "mine"}
    assert all(one.usable for one in results.measurements)


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
