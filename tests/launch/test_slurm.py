"""Batch scripts of Slurm, its command lines and what they print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from stackproof.core.errors import Reason
from stackproof.launch import slurm
from stackproof.launch.slurm import JobRequest


def request(**changes) -> JobRequest:
    kept = {
        "name": "a bench", "command": ("prog", "--x", "a b"), "folder": "/scratch/r",
        "logs": "/scratch/r/logs", "nodes": 2, "tasks_per_node": 1, **changes,
    }  # fmt: skip
    return JobRequest(**kept)


def options(script: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if "#SBATCH" in line]
    return dict(line.partition("=")[::2] for line in lines)


def test_the_script_asks_for_nodes_of_its_own_and_may_be_requeued() -> None:
    script = slurm.render_script(request())
    assert script.startswith("#!/bin/sh\n")
    assert options(script) == {
        "job-name": "stackproof-a-bench",
        "nodes": "2",
        "ntasks-per-node": "1",
        "chdir": "/scratch/r",
        "output": "/scratch/r/logs/job-%j.log",
        "open-mode": "append",
        "exclusive": "",
        "requeue": "",
    }
    assert script.endswith("\nexec prog --x 'a b'\n")


def test_the_script_is_one_and_becomes_the_command(tmp_path: Path) -> None:
    """Run by the shell, as Slurm does: with every word as it was given."""
    words = ("a b", "it's", "$HOME", "", "*", "ä", "-n", "#x")
    command = ("sh", "-c", 'for word; do printf "<%s>" "$word"; done', "sh", *words)
    script = slurm.render_script(request(command=command))
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("".join(f"<{word}>" for word in words), "")


@given(st.text(max_size=60))
def test_no_name_of_a_bench_breaks_the_script(text: str) -> None:
    plain = slurm.render_script(request()).splitlines()
    assert len(slurm.render_script(request(name=text)).splitlines()) == len(plain)


def test_arrays_nodes_and_options() -> None:
    asked = {"partition": "debug", "time": "00:30:00", "exclusive": "no", "comment": 'a "b" \\c'}
    script = slurm.render_script(
        request(elements=(0, 2), node_names=("nid1", "nid2"), options=asked, folder="/s/a b")
    )
    found = options(script)
    assert found["array"] == "0,2"
    assert found["nodelist"] == "nid1,nid2"
    assert found["output"] == "/scratch/r/logs/job-%A_%a.log"
    assert found["chdir"] == '"/s/a b"'
    assert found["comment"] == r'"a \"b\" \\c"'
    assert found["time"] == "00:30:00"
    assert "exclusive" not in found


def test_a_folder_name_is_no_pattern() -> None:
    assert options(slurm.render_script(request(logs="/s/50%j")))["output"] == "/s/50%%j/job-%j.log"


@pytest.mark.parametrize(
    ("name", "value"),
    [("output", "x"), ("array", "0-3"), ("wrap", "x"), ("-p", "x"), ("Partition", "x"),
     ("time", "1\n#SBATCH --uid=0"), ("", "x")],
)  # fmt: skip
def test_options_that_cannot_be(name, value) -> None:
    error = refusal(slurm.render_script, request(options={name: value, "nodes": "3"}))
    assert error.reason is Reason.INVALID_VALUE
    assert len(error.problems) == 2


def test_defaults_of_the_user_count_unless_the_specification_says_otherwise() -> None:
    user = {
        "SBATCH_PARTITION": "mine", "SBATCH_ACCOUNT": "p1", "SBATCH_EXPORT": "NONE",
        "SLURM_CONF": "/etc/x", "LD_PRELOAD": "x.so",
    }  # fmt: skip
    command = slurm.submit_command(request(options={"partition": "debug"}), "/s/job.sh", user)
    assert command.env.set == {"SBATCH_ACCOUNT": "p1", "SLURM_CONF": "/etc/x"}
    assert command.argv == ("sbatch", "--parsable", "--export=ALL", "/s/job.sh")


@pytest.mark.parametrize(
    ("text", "job"),
    [(b"17\n", "17"), (b"17;alps\n", "17"), (b"", None), (b"Submitted batch job 17\n", None)],
)
def test_job_ids(text, job) -> None:
    assert slurm.job_id(text) == job


def test_only_steps_of_tasks_are_killed() -> None:
    text = b"2.0\n2.batch\n2.extern\n8_1.4\n"
    assert slurm.kill_steps_argv(text) == ("scancel", "--signal=KILL", "2.0", "8_1.4")
    assert slurm.kill_steps_argv(b"2.batch\n") == ()


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("2(x3),4", (2, 2, 2, 4)), ("128", (128,)), ("", ()), ("x", ()), ("2(x)", ()),
        ("-1", ()), ("1(x99999)," * 9 + "1", ()), ("٣", ()),
    ],
)  # fmt: skip
def test_cpus_of_a_job_by_node(text, counts) -> None:
    assert slurm.cpus_per_node(text) == counts
