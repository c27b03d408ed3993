"""A job that ended before its first launch: its last error is told, and it is not made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refusals import refused
from stackproof.bench.effects import batch_job
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.compare.effects.results import load_results
from stackproof.core import noun
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.launch.effects import allocation, scheduler
from stackproof.launch.effects.scheduler import Door
from stackproof.launch.slurm import Job

CPUS = "the placement `intra-node` needs a CPU for each of 2 ranks"
JOB = Job(id="5", cluster=None, options={}, command=())
SPEC = BenchSpec(baseline=Arm(image="a"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder whose job 5 was submitted, has ended, and has printed nothing."""
    monkeypatch.setattr(scheduler, "has_ended", lambda *_: True)
    for name in ("job", "logs", "launches"):
        (tmp_path / name).mkdir()
    (tmp_path / "job" / "job.json").write_text(noun.to_json(JOB))
    return tmp_path


@pytest.mark.parametrize(
    ("log", "text", "fault"),
    [
        ("job-5.log", f"note: a\nerror: {CPUS} [unsupported]\nhint: ask for more\n", CPUS),
        ("job-5_1.log", "/bin/sh: 1: exec: python: not found\n", "exec: python: not found"),
        ("job-5.log", "slurmstepd: error: JOB 5 CANCELLED AT 1 DUE TO TIME LIMIT\n", "TIME LIMIT"),
        ("job-5.log", "slurmstepd: error: JOB 5 ON a CANCELLED AT 1\n", ""),
        ("job-50.log", f"error: {CPUS}\n", ""),
        ("job-5.log", "note: a\n", ""),
    ],
)
def test_the_last_error_of_a_job_is_told_and_no_second_one_is_made(
    folder: Path, log: str, text: str, fault: str
) -> None:
    (folder / "logs" / log).write_text(text)
    assert scheduler.find_fault(folder, JOB)[0].endswith(fault)
    with refused(Reason.NO_RESULTS, "no launch was made yet: job 5 ", fault):
        load_results(folder)
    if not fault:
        batch_job._refuse_second_job(folder, Door(), SPEC)
        return
    with refused(Reason.JOB_FAILED, "job 5 ended without a launch: ", fault, f"logs/{log}"):
        batch_job._refuse_second_job(folder, Door(), SPEC)
    batch_job._refuse_second_job(folder, Door(), replace(SPEC, scheduler_options={"time": "10"}))
    (folder / "logs" / log).unlink()
    batch_job._refuse_second_job(folder, Door(), SPEC)


def test_a_job_that_made_a_launch_may_be_followed_by_another(folder: Path) -> None:
    (folder / "logs" / "job-5.log").write_text(f"error: {CPUS}\n")
    launch = folder / "launches" / "00001-a.json"
    launch.write_text("{}")
    batch_job._refuse_second_job(folder, Door(), SPEC)
    os.utime(launch, (1, 1))  # of a job before
    with refused(Reason.JOB_FAILED, CPUS):
        batch_job._refuse_second_job(folder, Door(), SPEC)


def test_the_hint_outside_of_a_job_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with refused(Reason.USAGE, "not inside a job") as caught:
        allocation.enter()
    assert "`--on slurm`" in (caught.value.problems[0].hint or "")
