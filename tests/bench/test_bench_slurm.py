"""A bench as a Slurm job for real: from images to verdicts, and everything that cuts it short."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import wait_until
from slurmroom import Room, built_in
from stackproof.cluster.slurm import MUNGE_SOCKET

COVERS = (
    "bench/effects/batch_job.py",
    "bench/effects/planning.py",
    "launch/effects/allocation.py",
    "launch/effects/scheduler.py",
    "launch/effects/task.py",
)

pytestmark = pytest.mark.machine

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "osustandin"
CLUSTER = "bench-slurm"
# A lost node is noticed, and a requeued job starts again, as soon as this release can.
SETTINGS = ("SlurmdTimeout=5", "KillWait=1", f"AuthInfo=socket={MUNGE_SOCKET},cred_expire=5")
SPY = """#!/bin/sh
# Stands in the place of the benchmark program and tells what a rank sees.
env -0 >"$SPY/rank-$SLURM_PROCID"
tr '\\0' '\\n' </proc/$PPID/environ >"$SPY/parent-$SLURM_PROCID" 2>/dev/null
exec "${0%/*}/real-bench" "$@"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Room:
    room = built_in(tmp_path_factory.mktemp("room"), CLUSTER, "mpich")
    room.tree("mpich")
    room.run("pack", "mpich.squashfs", "-o", "mpich-pack")
    return room


def bring_up(room: Room) -> None:
    words = [word for line in SETTINGS for word in ("--set", line)]
    up = ("cluster", "up", "--nodes", "2", "--slurm", "--no-pin", "--name", CLUSTER)
    room.run(*up, "--share", room.folder, *words)


@pytest.fixture
def room(built: Room) -> Room:
    """A cluster of which every node is there."""
    bring_up(built)
    return built


@pytest.fixture(scope="module", autouse=True)
def taken_down(built: Room) -> Iterator[None]:
    yield
    built.run("cluster", "down", "--name", CLUSTER)


def good(launches: dict[str, dict]) -> bool:
    return all(c["state"] != "bad" for one in launches.values() for c in one["checks"])


def test_an_image_and_its_plain_folder_are_compared(room: Room) -> None:
    room.spec(
        "whole",
        baseline={"name": "image", "image": "mpich.squashfs"},
        challengers=[
            {"name": "folder", "image": "mpich-tree"},
            {"name": "pack", "pack": "mpich-pack"},
        ],
        benchmarks=["latency", "alltoall"],
        placements=["intra-node", "inter-node"],
        validated=["2x4"],
        launches=2,
    )
    assert "--resume" in room.measured("whole")
    launches = room.launches("whole")
    assert len(launches) == 18 + 3
    assert good(launches)
    said = {one["arm"]: one["host_facts"]["image"] for one in launches.values()}
    assert said == {
        "image": said["image"],
        "folder": "a plain folder; nothing is mounted",
        "pack": "a pack of tier 0: nothing is mounted",
    }
    assert "mounted by" in said["image"]
    for one in launches.values():
        assert [check["state"] for check in one["checks"] if check["name"] == "world"] == ["ok"]
        assert [check["state"] for check in one["checks"] if check["name"] == "placement"] == ["ok"]
        assert one["argv"][1] == "--mpi=pmi2"
    judged = room.run("compare", "whole", "--json", ok=(0, 8, 9)).stdout
    panels = json.loads(judged)["panels"]
    assert {panel["curve"]["placement"] for panel in panels} == {"intra-node", "inter-node"}
    checked = json.loads(judged)["validated"]
    assert {(one["arm"], one["ranks"], one["state"]) for one in checked} == {
        ("image", 8, "ok"), ("folder", 8, "ok"), ("pack", 8, "ok"),
    }  # fmt: skip
    host = json.loads((room.folder / "whole" / "bench.json").read_text())["host"]
    assert host["nodes"] == "node1, node2"
    assert host["scheduler"].startswith("Slurm 2")
    # Where others keep this machine's cores busy, that is so; nothing else is wrong.
    told = json.loads(room.run("doctor", "--results", "whole", "--json").stdout)
    assert {one["rule"] for one in told["findings"] if one["answer"] == "fires"} <= {"K83"}
    # Nothing is left to do, so no second job is made.
    room.run("bench", "--resume", "whole", "--no-verdict")
    assert room.job("whole") == json.loads((room.folder / "whole/job/job.json").read_text())["id"]
    assert room.slurm("squeue", "-h") == ""


def test_programs_from_sources_are_compiled_and_measured(room: Room) -> None:
    """Beside our own program, within and between nodes, for an image and for its plain folder."""
    osu = {"name": "OSU", "source": str(SOURCES), "benchmarks": ["latency", "allreduce"],
           "options": ["-i", "9"]}  # fmt: skip
    both = {"placements": ["intra-node", "inter-node"], "launches": 1}
    folder = {"name": "folder", "image": "mpich-tree"}
    room.spec("osu", programs=["stackproof-bench", osu], challengers=[folder], **both)
    room.measured("osu")
    launches = room.launches("osu")
    assert good(launches)
    made = [one for one in launches.values() if one["block"]]
    assert {
        (one["arm"], one["case"]["program"], one["case"]["placement"]["name"]) for one in made
    } == {
        (arm, program, place)
        for arm in ("base", "folder")
        for program in ("stackproof-bench", "osu_latency", "osu_allreduce")
        for place in both["placements"]
    }
    assert all(one["output"]["series"] for one in made)
    assert {one["host_facts"]["launcher"] for one in made} == {"srun"}


def test_a_job_that_would_make_no_launch_is_not_submitted(room: Room) -> None:
    before = room.slurm("squeue", "-h", "--states=all", "--format=%i")
    for name, changes, words in (
        ("none", {"programs": ["IMB-MPI1"]}, "no arm would run `IMB-MPI1`"),
        ("nowhere", {"challengers": [{"name": "away", "image": "mpich-tree",
                                      "placements": ["intra-node"]}]}, "`away` would run nothing"),
    ):  # fmt: skip
        done = room.run("bench", room.spec(name, **changes), "-o", name, "--no-verdict", ok=(11,))
        assert words in done.stderr
        assert "[nothing-ran]" in done.stderr
        assert not (room.folder / name).exists()
    assert room.slurm("squeue", "-h", "--states=all", "--format=%i") == before


# What Slurm itself tells the mpirun of a job's script, since 23.11; of no effect below srun.
FOR_MPIRUN = {
    "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "OMPI_MCA_plm_slurm_args", "PRTE_MCA_plm_slurm_args",
}  # fmt: skip


def test_ranks_see_the_intended_environment_and_srun_does_not(room: Room) -> None:
    """Variables of the image and of the arm, of Slurm, and of the plain base: nothing else."""
    spied = room.folder / "spied"
    if not spied.exists():
        shutil.copytree(room.folder / "mpich-tree", spied, symlinks=True)
        (spied / "benchmarks" / "stackproof-bench").rename(spied / "benchmarks" / "real-bench")
        (spied / "benchmarks" / "stackproof-bench").write_text(SPY)
    (spied / "benchmarks" / "stackproof-bench").chmod(0o755)
    told = room.folder / "told"
    told.mkdir()
    arm = {"SPY": str(told), "LD_BIND_NOW": "1", "COMMA": "a,b c", "UCX_TLS": "tcp"}
    room.env |= {"SLURM_CPU_BIND": "rank", "SBATCH_EXPORT": "NONE", "FROM_USER": "leaks"}
    room.spec("env", baseline={"name": "spy", "image": "spied", "env": arm}, launches=1)
    try:
        room.measured("env")
    finally:
        for name in ("SLURM_CPU_BIND", "SBATCH_EXPORT", "FROM_USER"):
            room.env.pop(name)
    launch = next(iter(room.launches("env").values()))
    for rank in ("0", "1"):
        text = (told / f"rank-{rank}").read_text()
        seen = dict(entry.partition("=")[::2] for entry in text.split("\0") if entry)
        assert {**launch["env"], "PATH": seen["PATH"]}.items() <= seen.items()
        assert arm.items() <= seen.items()
        assert seen["PATH"].startswith(f"{spied}/")
        known = {*launch["env"], "PATH", "HOME", "LANG", "TERM", "PWD", "SHLVL", "_", "OLDPWD"}
        rest = {n for n in seen if n not in known and not n.startswith(("SLURM", "PMI", "SRUN"))}
        rest -= FOR_MPIRUN
        assert rest <= {"TMPDIR"}, rest
        assert "FROM_USER" not in seen
    assert not [word for word in launch["argv"][:10] if "LD_" in word]


def test_allocations_of_their_own(room: Room) -> None:
    room.spec("array", allocations=2, launches=3)
    room.measured("array")
    launches = room.launches("array")
    assert len(launches) == 5
    assert good(launches)
    jobs: dict[str, list[int]] = {}
    for one in launches.values():
        jobs.setdefault(one["host_facts"]["job"], []).append(one["block"])
    assert sorted(map(sorted, jobs.values())) == [[0, 1, 3], [0, 2]]
    # Each allocation is on nodes of its own, and has a probe of its own.
    probes = sorted((room.folder / "array" / "probes").iterdir())
    assert [path.name for path in probes] == ["base-inter-node-0.json", "base-inter-node-1.json"]
    for path in probes:
        found = json.loads(path.read_text())
        assert (found["launcher"], "--label" in found["argv"]) == ("srun", True)
        (route,) = found["routes"]
        assert (route["state"], route["carrier"]) == ("ok", "`ch4:ofi` with libfabric's `tcp`")
        assert {one["rank"] for one in found["statements"]} == {0, 1}
    assert not any("--label" in one["argv"] for one in launches.values())


def test_launches_are_made_until_all_is_decided(room: Room) -> None:
    """A job ends with its budget, and one with more time goes on to the look that decides."""
    tcp = {"name": "tcp", "image": "mpich.squashfs", "transports": {"intra-node": "tcp"}}
    more = {"until-decided": True, "launches": 20, "placements": ["intra-node"]}
    spec = room.spec("until", challengers=[tcp], **more)
    dry = room.run("bench", spec, "--budget", "1s", "--dry-run")
    assert "--resume" in dry.stdout
    assert "after 8, 11, 14 and 20 launches per arm it is looked" in dry.stderr
    assert "beyond 1 s of timed launches in all" in dry.stderr
    room.measured("until", spec, "-o", "until", "--budget", "1s")
    before = room.launches("until")
    assert {one["block"] for one in before.values()} <= set(range(7))
    (log,) = (room.folder / "until" / "logs").glob("job-*.log")
    assert "the budget of 1 s ends here" in log.read_text()
    room.measured("until", "--resume", "until", "--budget", "1h")
    launches = room.launches("until")
    assert before.keys() < launches.keys()
    assert good(launches)
    last = max(one["block"] for one in launches.values())
    assert last in {8, 11, 14, 20}
    assert len(launches) == 2 * (last + 1)
    judged = json.loads(room.run("compare", "until", "--json", ok=(8, 9)).stdout)
    (cell,) = judged["panels"][0]["judgements"][0]["cells"]
    # Eight launches decide by far; others at the ranks' CPUs may have it wait for more, or give up
    # where more than it may make would be needed.
    assert cell["verdict"] != "PASS"
    assert cell["verdict"] == "FAIL" or last == 20 or (cell["launches_needed"] or 21) > 20


def test_a_job_that_was_cut_short_is_completed(room: Room) -> None:
    """Its results stay; no second job is submitted beside it, and the next one makes the others."""
    room.spec("cut")
    said = room.submitted("cut")
    first = room.job("cut")
    assert f"{first} is submitted" in said
    before = room.wait_for("cut", 3)
    done = room.run("bench", "--resume", "cut", ok=(7,))
    assert f"the job `{first}` of" in done.stderr
    assert f"scancel {first}" in done.stderr
    room.slurm("scancel", first)
    room.await_end("cut")
    assert good(room.launches("cut"))
    assert len(room.launches("cut")) < 10
    assert room.run("bench", "--resume", "cut", ok=(9,)).stdout == ""
    room.await_end("cut")
    assert room.job("cut") != first
    assert len(room.launches("cut")) == 10
    assert room.untouched("cut", before)
    # Nothing is left to do: the same command says the verdicts.
    assert "latency" in room.run("bench", "--resume", "cut", ok=(0, 9)).stdout


def test_a_requeued_job_goes_on_where_it_was(room: Room) -> None:
    room.spec("again")
    room.submitted("again")
    before = room.wait_for("again", 3)
    job = room.job("again")
    room.slurm("scontrol", "requeue", job)
    assert wait_until(lambda: "PENDING" in room.slurm("squeue", "-h", "-o", "%T"), 30)
    # Slurm lets it wait two minutes. Not at once: the end of the first try may still be on its way,
    # and Slurm would take it for the end of the second one.
    room.slurm("scontrol", "update", f"JobId={job}", "StartTime=now+4")
    room.await_end("again")
    launches = room.launches("again")
    assert len(launches) == 10
    assert good(launches)
    assert room.untouched("again", before)
    assert {one["host_facts"]["restarts"] for one in launches.values()} == {"0", "1"}
    assert {one["host_facts"]["job"] for one in launches.values()} == {job}


def test_a_node_that_dies_gives_no_number_and_the_rest_is_made_later(room: Room) -> None:
    spec = room.spec("dead", timeout=10)
    options = ("--sbatch-option", "requeue=no", "--sbatch-option", "no-requeue")
    room.submitted("dead", spec, "-o", "dead", *options)
    before = room.wait_for("dead", 3)
    room.run("cluster", "kill", "node2", "--name", CLUSTER)
    room.await_end("dead")
    launches = room.launches("dead")
    assert len(launches) < 10
    assert good(launches)
    bring_up(room)
    room.measured("dead", "--resume", "dead")
    assert len(room.launches("dead")) == 10
    assert good(room.launches("dead"))
    assert room.untouched("dead", before)


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        pytest.param({"pmi": "pmi9"}, "srun --mpi=pmi9", id="no-such-pmi"),
        pytest.param({"pmi": "none"}, "do not belong together", id="singletons"),
        pytest.param({"env": {"FI_PROVIDER": "sockets"}}, "`FI_PROVIDER` is `sockets`", id="path"),
    ],
)
def test_what_cannot_be_measured_is_an_error_of_the_job(room: Room, arm, said, request) -> None:
    name = f"bad-{request.node.callspec.id}"
    room.spec(name, baseline={"name": "base", "image": "mpich.squashfs", **arm})
    printed = room.measured(name)
    assert said in printed
    assert "hint: " in printed


def test_a_rate_is_refused_before_a_job_is_submitted(room: Room) -> None:
    baseline = {"name": "base", "image": "mpich.squashfs", "rate": "1gbit"}
    done = room.run("bench", room.spec("rate", baseline=baseline), "-o", "rate", ok=(3,))
    assert "a job cannot give its links the rate `1gbit`" in done.stderr


def test_what_the_scheduler_refuses_is_told_in_its_words(room: Room) -> None:
    words = ("--sbatch-option", "partition=nosuch")
    done = room.run("bench", room.spec("refused"), "-o", "refused", *words, ok=(7,))
    assert "partition" in done.stderr
    assert not (room.folder / "refused" / "job" / "job.json").exists()


def test_a_cluster_without_slurm_and_none_at_all(built: Room) -> None:
    done = built.run("bench", built.spec("none", cluster="nowhere"), "-o", "none", ok=(4,))
    assert "cluster up" in done.stderr
    built.run("cluster", "up", "--nodes", "1", "--name", "plain")
    try:
        spec = built.spec("plain", cluster="plain")
        done = built.run("bench", spec, "-o", "plain", ok=(3,))
        assert "--slurm" in done.stderr
    finally:
        built.run("cluster", "down", "--name", "plain")
    assert not (built.folder / "plain").exists()


def test_nothing_of_it_stays_on_the_nodes(room: Room) -> None:
    """After all of the above: no mount, no process of a rank on any node."""
    time.sleep(0.2)
    for node in ("node1", "node2"):
        text = room.run(
            "cluster", "exec", "--name", CLUSTER, "--on", node, "--", "sh", "-c",
            "cat /proc/self/mounts; ps -eo args",
        ).stdout  # fmt: skip
        assert "squashfs" not in text
        assert "stackproof-bench" not in text
