"""`stackproof doctor` as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from doctoring import told
from images import make_image
from inprocess import stackproof
from need import need
from stackproof.compare.effects.results import load_results
from stackproof.core import noun
from stackproof.core.effects import files, shipped
from stackproof.knowledge.effects.load import load_curves
from stackproof.results.case import Placement, Rank
from stackproof.results.path import MessagePaths, Statement, Topic

COVERS = (
    "doctor/cli/doctor.py",
    "doctor/diagnosis.py",
    "doctor/effects/collect.py",
    "doctor/effects/measured.py",
)

LNX = "OMPI_MCA_opal_common_ofi_provider_include"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (LNX, "OMPI_MCA_pml", "OMPI_MCA_mtl", "UCX_TLS", "FI_SHM_USE_XPMEM"):
        monkeypatch.delenv(name, raising=False)


def ids(data: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in data["findings"] if one["answer"] == "fires"]


def osu(path: Path, curve_id: str, tag: str = "") -> Path:
    curve = next(curve for curve in load_curves() if curve.id == curve_id)
    title = {"bandwidth": "Bandwidth", "latency": "Latency"}[curve.benchmark]
    column = {"bandwidth": "Bandwidth (MB/s)", "latency": "Avg Latency(us)"}[curve.benchmark]
    lines = [f"# OSU MPI{tag} {title} Test v7.5", "# Datatype: MPI_CHAR.", f"# Size  {column}"]
    lines += [f"{point.size:<10}{point.printed:>20}" for point in curve.points]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_environment_of_this_shell_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LNX, "shm+cxi:lnx")
    done = stackproof("doctor", "--have", "libfabric=2.3.1")
    assert done.returncode == 0
    text = done.stdout
    assert f"{LNX}=shm+cxi:lnx (this shell)" in text
    assert f"$ export {LNX}=lnx" in text
    assert (
        "Most likely cause: Open MPI looks for a name that the lnx provider no longer has" in text
    )


def test_a_newer_release_than_known_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LNX, "shm+cxi:lnx")
    data = told("--have", "libfabric=99.0")
    (finding,) = [one for one in data["findings"] if one["rule"] == "K01"]
    assert finding["answer"] == "cannot tell"
    assert "newest" in finding["would-tell"][0]


def test_a_log_and_the_environment_of_a_job_are_files(tmp_path: Path) -> None:
    log, env = tmp_path / "job.err", tmp_path / "job.env"
    log.write_text("x\ncxil_map: write error\n\x1b[31mCassini Event Queue overflow detected\n")
    env.write_text("OMPI_MCA_pml=ucx\nEDITOR=vi\nFN=() {\n x\n}\n")
    done = stackproof("doctor", "--site", "lumi-g", "--log", log, "--env", env)
    assert done.returncode == 0
    text = done.stdout
    assert "\x1b" not in text
    data = told("--site", "lumi-g", "--log", log, "--env", env)
    assert {"K27", "K47", "K50"} <= set(ids(data))
    assert data["evidence"]["variables"] == {"OMPI_MCA_pml": "ucx"}


def test_a_site_alone_is_about_the_vendors_stack() -> None:
    data = told("--site", "lumi-g")
    assert data["evidence"]["facts"]["mpi"] == "cray-mpich"
    assert data["evidence"]["versions"]["libfabric"] == "1.15.2.0"
    assert data["evidence"]["variables"] is None


@pytest.mark.parametrize("name", sorted(shipped.names("sites")))
def test_a_site_as_it_is_shipped_raises_no_alarm(name: str) -> None:
    """But one, whose libfabric was made before its nodes were: that is true of it."""
    expected = ["K39"] if name == "helios-gpu" else []
    assert ids(told("--site", name)) == expected


def test_results_of_others_are_diagnosed(tmp_path: Path) -> None:
    name = "alps-gh200-openmpi-without-cxi-inter-host-bandwidth"
    file = osu(tmp_path / "bw.txt", name)
    assert stackproof("import", file, "--placement", "inter-node", "--site", "alps-gh200",
               "-o", tmp_path / "r").returncode == 0  # fmt: skip
    data = told("--results", tmp_path / "r", "--site", "alps-gh200",
                "--fact", "mpi=openmpi", "--fact", "ofi-support=false")  # fmt: skip
    assert ids(data)[0] == "K28"
    first = data["findings"][0]
    assert first["supported"]


def test_the_probe_before_a_bench_tells_what_was_used(tmp_path: Path) -> None:
    file = osu(tmp_path / "bw.txt", "alps-gh200-openmpi-without-cxi-inter-host-bandwidth")
    assert stackproof("import", file, "--placement", "inter-node", "--site", "alps-gh200",
               "-o", tmp_path / "r").returncode == 0  # fmt: skip
    arm = load_results(tmp_path / "r").spec.baseline
    probe = MessagePaths(
        arm=arm, placement=Placement(name="inter-node", ranks=(Rank(node="a"), Rank(node="b"))),
        transport="lnx", family="openmpi", version="5.0.8", launcher="prte", identity="x",
        started="2026-01-02T03:04:05Z", seconds=1.0,
        statements=(Statement(topic=Topic.VERSION, value="libfabric 2.4.0", quote="said so"),),
    )  # fmt: skip
    files.write(tmp_path / "r" / "probes" / "one.json", noun.to_json(probe))
    words = ("--results", tmp_path / "r", "--arm", arm, "--fact", "fabric=slingshot-11")
    data = told(*words)
    assert data["evidence"]["versions"] == {"libfabric": "2.4.0", "openmpi": "5.0.8"}
    assert data["evidence"]["origins"]["version libfabric"] == f"probe of {arm}, inter-node"
    done = stackproof("doctor", "--results", tmp_path / "r", "--arm", f"{arm}x")
    assert done.returncode == 2
    assert f"hint: did you mean `{arm}`? arms are: " in done.stderr


def test_an_image_is_looked_into_without_running_it(tmp_path: Path) -> None:
    need("mksquashfs")
    image = make_image(tmp_path / "tiny.squashfs")
    data = told(image)
    assert data["evidence"]["facts"]["mpi"] == "mpich"
    assert data["evidence"]["facts"]["xpmem-device"] is os.path.exists("/dev/xpmem")
    done = stackproof("doctor", image, "--view", "nothing")
    assert done.returncode == 6
    assert "default" in done.stderr


def test_of_an_mpi_that_is_known_no_other_is_asked_for(tmp_path: Path) -> None:
    need("mksquashfs")
    data = told(make_image(tmp_path / "tiny.squashfs"))
    wanted = {word for one in data["findings"] for word in one["would-tell"]}
    assert wanted  # there are problems that nobody can tell from an image alone
    others = ("openmpi", "intel-mpi", "mvapich", "cray-mpich", "OMPI_", "I_MPI_")
    assert [text for text in sorted(wanted) for word in others if word in text] == []


def test_a_program_is_looked_at_without_running_it(tmp_path: Path) -> None:
    data = told("--program", sys.executable)
    assert data["evidence"]["facts"]["libraries-missing"] is False
    assert "mpi" not in data["evidence"]["facts"]
    assert stackproof("doctor", "--program", tmp_path / "nothing").returncode == 3
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    done = stackproof("doctor", "--program", script)
    assert done.returncode == 3
    assert "script" in done.stderr


@pytest.mark.battery
def test_a_program_that_hangs_when_it_is_asked_costs_its_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fi_info", "scontrol", "srun"):
        tool = tmp_path / name
        tool.write_text("#!/bin/sh\ntrap '' TERM\nsleep 60\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("stackproof.doctor.effects.machine._TIMEOUT_S", 0.3)
    before = time.monotonic()
    data = told("--probe", "--site", "lumi-g")
    assert time.monotonic() - before < 40
    assert "version libfabric" in data["evidence"]["origins"]


@pytest.mark.parametrize(
    ("option", "word", "said"),
    [
        ("--have", "libfabrik=2", "did you mean `libfabric`?"),
        ("--have", "libfabric", "such as --have openmpi="),
        ("--fact", "memroy=device", "did you mean `memory`?"),
        ("--fact", "=x", "no rule asks for ``"), ("--fact", "transport", "--fact transport="),
        ("--fact", "transport=foo", "it can be: "), ("--fact", "memory=devise", "it can be: "),
        ("--fact", "container=maybe", "it can be: "), ("--fact", "mpi=mpich2", "it can be: "),
        ("--fact", "worlds=abc", "`worlds` is a number"),
        ("--fact", "signal=1,,2", "`signal` is whole numbers"),
        ("--fact", "nodes=-1", "`nodes` is a number"), ("--fact", "nodes=1,2", "`nodes` is a number"),
        ("--fact", "memlock-kib=unlimited", "`memlock-kib` is a number"),
        ("--fact", "wrong-bytes=nan", "is a number"), ("--fact", "signal=SIGKILL", "such as 9,11"),
        ("--fact", "slurm-pmix=v4", "`slurm-pmix` is whole numbers"),
        ("--fact", "nics-per-node=1e9", "is a number"),
        ("--fact", "uses=probe,,one-sided", "a word of the list is empty"),
        ("--fact", "node=,gh200", "a word of the list is empty"),
    ],
)  # fmt: skip
def test_words_that_are_wrong_are_wrong_usage(option: str, word: str, said: str) -> None:
    done = stackproof("doctor", option, word)
    assert done.returncode == 2
    assert said in done.stderr


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    for option in ("--log", "--env", "--results"):
        done = stackproof("doctor", option, tmp_path / "nothing")
        assert done.returncode != 0
        assert "nothing" in done.stderr


@pytest.mark.parametrize("text", ["", "MZ\0\1", "module load openmpi\n"])
def test_what_is_no_environment_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.env"
    path.write_text(text)
    done = stackproof("doctor", "--env", path)
    assert done.returncode == 3
    assert "job.env" in done.stderr


def test_a_log_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        stream.truncate(1 << 30)
    assert stackproof("doctor", "--log", log).returncode == 3


def test_what_cannot_be_told_is_listed_by_rule() -> None:
    done = stackproof("doctor", "--site", "lumi-g", "--all")
    assert done.returncode == 0
    text = done.stdout
    assert "K47 cxil-map-write-error" in text
    assert "to check it, give: what the job printed" in text


def test_programs_are_asked_when_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "fi_info"
    tool.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "libfabric: 2.4.0"\nexit 0\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    data = told("--probe", "--fact", "transport=lnx", "--fact", "fabric=slingshot-11")
    assert data["evidence"]["versions"]["libfabric"] == "2.4.0"
    assert data["evidence"]["origins"]["version libfabric"] == "fi_info --version"
    assert "K06" in ids(data)


@pytest.mark.parametrize(("job", "first"), [({"SLURM_JOB_ID": "7"}, ["K82"]), ({}, [])])
def test_a_job_that_may_lock_little_memory_sees_it(job: dict[str, str], first: list[str]) -> None:
    """The limit is set for real; that of a login shell says nothing of a job's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["prlimit", f"--memlock={16 << 10}:{16 << 10}", sys.executable, "-m", "stackproof",
         "doctor", "--fact", "fabric=slingshot-11", "--json"],
        env={**kept, **job}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert ids(data)[:1] == first
    assert data["evidence"]["facts"].get("memlock-kib") == (16.0 if job else None)
