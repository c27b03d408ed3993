"""What is asked of a bench, how it stops and goes on, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

import topologies
from benchroom import stackproof, stopped, write_spec
from need import need
from pythonpage import programs
from stackproof.compare.effects.results import load_results

COVERS = (
    "bench/effects/launching.py",
    "bench/options.py",
    "bench/cli/bench.py",
    "bench/specifying.py",
)

pytestmark = pytest.mark.machine


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
    (room / "lumi.xml").write_text(topologies.node("lumi-g").xml())
    layout = write_spec(room, "layout", placements=[{"shape": "2x8", "by": "gpu"}],
                        benchmarks=["alltoall"], on="slurm")  # fmt: skip
    there = ("bench", layout, "--topology", "lumi.xml")
    said = stackproof(*there, "--dry-run", cwd=room).stdout
    assert "    rank  node   core  NUMA  NIC   GPU\n    0     node1  48    3     cxi0  0\n" in said
    assert "    15    node2  40    2     cxi3  7\n" in said
    assert "is for `--dry-run`" in stackproof(*there, cwd=room, ok=(2,)).stderr
    wrong = write_spec(room, "dry-wrong", sizes={"from": "4 MiB", "to": 1})
    refused = stackproof("bench", wrong, "--dry-run", cwd=room, ok=(3,))
    assert "no power of two" in refused.stderr


def test_ctrl_c_says_how_to_go_on_and_so_it_does(room: Path) -> None:
    spec = write_spec(room, "stopped", launches=6)
    words = ("bench", spec, "-o", "stopped", "--no-verdict")
    code, said = stopped(
        *words, cwd=room, at="ok [3/7]", do=lambda process: process.send_signal(signal.SIGINT)
    )
    assert code == 130
    assert "7 launches: 1 arm, 1 placement, a warm-up and 6 blocks" in "".join(said[:4])
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


def test_an_image_that_is_replaced_is_not_mixed_in(room: Path) -> None:
    """Each launch mounts the image: no number of the other one stands under the first's digest."""
    shutil.copy(room / "mpich.squashfs", room / "ours.squashfs")
    shutil.copy(room / "faulty.squashfs", room / "other.squashfs")
    spec = write_spec(room, "replaced", baseline={"image": "ours.squashfs"}, launches=4)
    words = ("bench", spec, "-o", "replaced", "--no-verdict")

    def replace(_: object) -> None:
        (room / "ours.squashfs").rename(room / "aside.squashfs")
        (room / "other.squashfs").rename(room / "ours.squashfs")

    code, said = stopped(*words, cwd=room, at="ok [2/5]", do=replace)
    assert code == 6
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
    (room / "notes.txt").write_text("no image\n")
    spec = write_spec(
        room, "arms",
        baseline={"image": "missing.squashfs"},
        challengers=[{"image": "notes.txt"}, {"image": "mpich.squashfs", "view": "nope"}],
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "arms", cwd=room, ok=(6,))
    assert done.stderr.count("error: ") == 3


def test_memory_of_a_gpu_is_refused_where_the_mpi_takes_none(room: Path) -> None:
    """The developers' wheel of MPICH was built without; nothing is started, and it says why."""
    said = "MPICH 5.0.2 was built without `cuda`"
    short = ("bench", "--baseline", "mpich.squashfs", "--placement", "intra-node", "-o", "gpu")
    done = stackproof(*short, "--memory", "cuda", cwd=room, ok=(3,))
    assert said in done.stderr
    assert done.stderr.count("error: ") == 1
    assert not (room / "gpu").exists()
    spec = write_spec(room, "gpu", memory=["host", "cuda"])
    assert said in stackproof("bench", spec, "-o", "gpu", cwd=room, ok=(3,)).stderr
    run = ("run", "mpich.squashfs", "--memory", "cuda", "--", "echo", "ran")
    done = stackproof(*run, cwd=room, ok=(3,))
    assert (said in done.stderr, done.stdout) == (True, "")
    for wrong in ("gpu", "cuda,rocm,host", "cuda,"):
        done = stackproof(*short, "--memory", wrong, cwd=room, ok=(2,))
        assert f"--memory is {wrong}" in done.stderr


def test_short_form_needs_no_specification_and_no_cluster(room: Path) -> None:
    done = stackproof(
        "bench", "--baseline", "mpich.squashfs", "--launches", "1", "--placement", "intra-node",
        "--benchmarks", "latency", "--sizes", "8,4096", "--cluster", "nowhere", "-o", "short", "--no-verdict", cwd=room,
    )  # fmt: skip
    assert done.stdout == "short\n"
    stackproof("bench", "-o", "x", cwd=room, ok=(2,))
    stackproof("bench", "absent.yaml", "-o", "x", cwd=room, ok=(3,))


def test_an_image_and_its_pack_are_compared(room: Path) -> None:
    """On one node and on two; the pack's own launcher starts its own programs with its own MPI."""
    need("patchelf")
    pack = room / "mpich-pack"
    stackproof("pack", "mpich.squashfs", "-o", pack.name, cwd=room)
    spec = write_spec(
        room, "packed",
        challengers=[{"name": "packed", "pack": pack.name}],
        placements=["intra-node", "inter-node"],
        launches=2,
    )  # fmt: skip
    stackproof("bench", spec, "-o", "packed", "--no-verdict", cwd=room)
    results = load_results(room / "packed")
    told = json.loads((room / "mpich-pack.provenance.json").read_text())
    arm = results.spec.arms["packed"]
    assert (arm.kind, arm.image_sha256) == ("pack", told["tree"])
    assert arm.lock == results.spec.arms["base"].lock
    launches = [one for one in results.measurements if one.arm == "packed"]
    assert {one.case.placement.name for one in launches} == {"intra-node", "inter-node"}
    assert all(one.usable for one in results.measurements)
    for one in launches:
        assert f"{pack}/stack/mpich-5.0.2/bin/mpiexec" in one.argv
        for rank in one.output.ranks:
            (library,) = (path for path in rank.libraries if "/libmpi" in path)
            assert library.startswith(f"{pack}/stack/")


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
