"""What a bench says of causes that were planted: where they are, and nowhere else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchroom import stackproof, verdicts, write_spec

pytestmark = pytest.mark.machine


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
            "window": 4,  # 64 messages of 1 MiB take a second on the slow link, for each sample
        },
    )  # fmt: skip
    for attempt in range(3):
        done = stackproof("bench", spec, "-o", f"planted-{attempt}", "--json", cwd=room, ok=(8, 9))
        comparison = json.loads(done.stdout)
        link, send = verdicts(comparison, "slow-link"), verdicts(comparison, "slow-send")
        planted = {
            link["inter-node", "bandwidth", 1 << 20], link["inter-node", "latency", 1 << 20],
            send["intra-node", "latency", 4096], send["inter-node", "latency", 4096],
        }  # fmt: skip
        if planted == {"FAIL"}:
            break
        # Others at the ranks' CPUs rightly leave it open, and no more than that.
        assert '"disturbed"' in done.stdout
        assert "PASS" not in planted
    assert "FAIL" not in verdicts(comparison, "base-again").values()
    assert "FAIL" not in verdicts(comparison, "same").values()
    failed = {key for key, verdict in link.items() if verdict == "FAIL"}
    assert all(place == "inter-node" and size > 8 for place, _, size in failed), failed
    failed = {key for key, verdict in send.items() if verdict == "FAIL"}
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
    done = stackproof("bench", spec, "-o", name, cwd=room, ok=(11 if fault == "alone" else 7,))
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


_IMPATIENT = """
import stackproof.bench.pace as patience
from stackproof.cli import main

patience.LEAST_S, patience.SHARE = 0.0, 0.3
main()
"""


def test_a_bench_that_others_disturb_ends_early_with_something_to_compare(room: Path) -> None:
    """The minute of waiting is left out, and a third is enough: the loop spares the warm-up.

    The next command goes on where it ended.
    """
    busy = {"image": "faulty.squashfs", "env": {"FAULT": "busy"}}
    spec = write_spec(
        room, "given-up",
        baseline={"name": "base", **busy}, challengers=[{"name": "other", **busy}],
        sizes=[65536], launches=3, timeout=60,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _IMPATIENT, "bench", spec, "-o", "given-up", "--json"],
        cwd=room, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 9, done.stderr
    (told,) = (line for line in done.stderr.splitlines() if "given up after" in line)
    assert " of 8 launches in given-up" in told
    (why,) = (line for line in done.stderr.splitlines() if "giving up: " in line)
    assert "lost" in why
    assert why.endswith(" for a number of each arm")
    assert "What helps: end those programs" in told
    assert "--no-give-up" in told
    assert set(verdicts(json.loads(done.stdout), "other").values()) == {"INCONCLUSIVE"}
    made = sorted(path.name for path in (room / "given-up" / "launches").iterdir())
    assert len(made) == 4  # a warm-up of each arm, and a pair, of which one came after giving up
    stackproof("bench", spec, "-o", "given-up", "--no-give-up", cwd=room, ok=(9,))
    whole = sorted(path.name for path in (room / "given-up" / "launches").iterdir())
    assert set(made) < set(whole)
    assert len(whole) == 8


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
    assert "K237" in {one["rule"] for one in told["findings"] if one["answer"] == "fires"}


JUMPED = re.compile(r"the clock of rank 1 jumped by (29|30)\d µs during the launch")


def test_a_jump_of_a_rank_s_clock_is_named_and_decides_nothing(room: Path) -> None:
    spec = write_spec(
        room, "jump",
        **{
            "null-arm": True,
            "challengers": [
                {
                    "name": "jumps", "image": "faulty.squashfs",
                    "env": {"FAULT": "jump", "JUMP": str(room / "jumpclock.so")},
                },
            ],
            "benchmarks": ["latency", "allreduce"],
            "launches": 5,
        },
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "jump", "--json", cwd=room, ok=(9,))
    comparison = json.loads(done.stdout)
    assert comparison["verdict"] == "INCONCLUSIVE"
    assert not {"PASS", "FAIL"} & set(verdicts(comparison, "jumps").values())
    discarded = [one for one in comparison["discarded"] if one["arm"] == "jumps"]
    assert {one["reason"] for one in discarded} == {"clock-jumped"}
    assert all(JUMPED.search(one["evidence"]) for one in discarded), discarded
    # Others keep their launches: nothing of them has jumped.
    kept = {one["arm"] for one in comparison["discarded"]} - {"jumps", ""}
    assert kept == set()
    told = stackproof("compare", "jump", cwd=room, ok=(9,)).stdout
    assert JUMPED.search(" ".join(told.split()))
    stackproof("report", "jump", "-o", "jump.html", cwd=room)
    assert JUMPED.search((room / "jump.html").read_text(encoding="utf-8"))
