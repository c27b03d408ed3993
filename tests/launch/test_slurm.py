"""Slurm's answers, as real ones and in the forms of other releases, and its batch scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.errors import Reason, StackproofError
from stackproof.launch.schedulers import JobRequest, JobState
from stackproof.launch.schedulers import slurm as schedulers_slurm
from stackproof.launch.schedulers.slurm import Slurm, read_accounting, read_json, read_lines

CAPTURES = Path(__file__).parents[1] / "captures" / "slurm"
SLURM = Slurm()


def request(**changes) -> JobRequest:
    kept = {
        "name": "a bench", "command": ("prog", "--x", "a b"), "folder": "/scratch/r",
        "logs": "/scratch/r/logs", "nodes": 2, "tasks_per_node": 1, **changes,
    }  # fmt: skip
    return JobRequest(**kept)


def capture(name: str) -> bytes:
    return (CAPTURES / name).read_bytes()


def short(found) -> list[tuple[str, int | None, int]]:
    return sorted((s.state.value, s.element, s.restarts) for s in found)


@pytest.mark.parametrize(
    ("job", "name", "expected"),
    [
        ("2", "squeue", [("running", None, 0)]),
        ("3", "squeue", [("pending", None, 0)]),
        ("4", "squeue", [("pending", None, 0)]),
        ("8", "squeue-array", [("pending", 1, 0), ("running", 0, 0)]),
        ("4", "squeue-array", [("done", 0, 0), ("done", 1, 0)]),
        ("3", "squeue-array", [("cancelled", None, 0)]),
        ("7", "squeue-requeued", [("pending", None, 1)]),
        ("4", "squeue-node-fail", [("node-fail", None, 0)]),
        ("99", "squeue", []),
    ],
)
def test_squeue_json_of_2205(job, name, expected) -> None:
    assert short(read_json(job, capture(f"22.05-{name}.json"))) == expected


@pytest.mark.parametrize(
    ("job", "name", "expected"),
    [
        ("2", "running", [("running", None, 0)]),
        ("8", "array", [("pending", 1, 0), ("running", 0, 0)]),
        ("4", "node-fail", [("node-fail", None, 0)]),
    ],
)
def test_scontrol_text_of_2205(job, name, expected) -> None:
    found = read_lines(job, capture(f"22.05-scontrol-{name}.txt"))
    assert short(found) == expected


def test_the_reason_is_told_and_none_is_none() -> None:
    (waiting,) = read_json("7", capture("22.05-squeue-requeued.json"))
    assert (waiting.said, waiting.reason) == ("PENDING", "BeginTime")
    (running,) = read_json("2", capture("22.05-squeue.json"))
    assert running.reason == ""


def number(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["RUNNING"], JobState.RUNNING),
        (["COMPLETED"], JobState.DONE),
        (["CANCELLED", "COMPLETING"], JobState.RUNNING),
        (["NODE_FAIL", "REQUEUED"], JobState.PENDING),
        (["OUT_OF_MEMORY"], JobState.FAILED),
        (["TIMEOUT"], JobState.TIMEOUT),
        (["PREEMPTED"], JobState.CANCELLED),
        (["HIBERNATING"], JobState.RUNNING),
    ],
)
def test_json_of_later_releases(states, state) -> None:
    """Lists of states, and numbers that say whether they are set."""
    job = {
        "job_id": 17, "array_job_id": number(12), "array_task_id": number(3),
        "restart_cnt": number(2), "job_state": states, "state_reason": "None",
    }  # fmt: skip
    (found,) = read_json("12", json.dumps({"jobs": [job], "errors": []}).encode())
    assert (found.state, found.element, found.restarts) == (state, 3, 2)


def test_accounting() -> None:
    text = b"17_0|CANCELLED by 0|1\n17_[1-2]|PENDING|0\n18|COMPLETED|0\n"
    assert short(read_accounting("17", text)) == [("cancelled", 0, 1), ("pending", None, 0)]
    assert read_accounting("17", b"") == ()


@given(st.binary(max_size=200))
def test_what_is_no_answer_is_none(text: bytes) -> None:
    for read in (read_json, read_lines, read_accounting):
        found = read("1", text)
        assert found is None or isinstance(found, tuple)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b'{"jobs": 3}', b'{"jobs": [{"job_id": 1}]}', b'{"jobs": [null]}']
)
def test_json_of_another_shape_is_no_answer(text: bytes) -> None:
    assert read_json("1", text) is None


def options(script: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if "#SBATCH" in line]
    return dict(line.partition("=")[::2] for line in lines)


def test_the_script_asks_for_nodes_of_its_own_and_may_be_requeued() -> None:
    script = SLURM.script(request())
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


def test_arrays_nodes_and_options() -> None:
    asked = {"partition": "debug", "time": "00:30:00", "exclusive": "no", "comment": 'a "b" \\c'}
    script = SLURM.script(
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
    assert options(SLURM.script(request(logs="/s/50%j")))["output"] == "/s/50%%j/job-%j.log"


@pytest.mark.parametrize(
    ("name", "value"),
    [("output", "x"), ("array", "0-3"), ("wrap", "x"), ("-p", "x"), ("Partition", "x"),
     ("time", "1\n#SBATCH --uid=0"), ("", "x")],
)  # fmt: skip
def test_options_that_cannot_be(name, value) -> None:
    with pytest.raises(StackproofError) as caught:
        SLURM.script(request(options={name: value, "nodes": "3"}))
    assert caught.value.reason is Reason.INVALID_VALUE
    assert len(caught.value.problems) == 2


def test_defaults_of_the_user_count_unless_the_specification_says_otherwise() -> None:
    user = {
        "SBATCH_PARTITION": "mine", "SBATCH_ACCOUNT": "p1", "SBATCH_EXPORT": "NONE",
        "SLURM_CONF": "/etc/x", "LD_PRELOAD": "x.so",
    }  # fmt: skip
    command = SLURM.submit(request(options={"partition": "debug"}), "/s/job.sh", user)
    assert command.env.set == {"SBATCH_ACCOUNT": "p1", "SLURM_CONF": "/etc/x"}
    assert command.argv == ("sbatch", "--parsable", "--export=ALL", "/s/job.sh")


@pytest.mark.parametrize(
    ("text", "job"),
    [(b"17\n", "17"), (b"17;alps\n", "17"), (b"", None), (b"Submitted batch job 17\n", None)],
)
def test_job_ids(text, job) -> None:
    assert SLURM.job_id(text) == job


def test_only_steps_of_tasks_are_killed() -> None:
    text = b"2.0\n2.batch\n2.extern\n8_1.4\n"
    assert schedulers_slurm.kill_steps_argv(text) == ("scancel", "--signal=KILL", "2.0", "8_1.4")
    assert schedulers_slurm.kill_steps_argv(b"2.batch\n") == ()


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("2(x3),4", (2, 2, 2, 4)), ("128", (128,)), ("", ()), ("x", ()), ("2(x)", ()),
        ("-1", ()), ("1(x99999)," * 9 + "1", ()), ("٣", ()),
    ],
)  # fmt: skip
def test_cpus_of_a_job_by_node(text, counts) -> None:
    assert schedulers_slurm.cpus_per_node(text) == counts
