"""What every scheduler keeps."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.errors import Reason, StackproofError
from stackproof.launch import schedulers
from stackproof.launch.schedulers import JobRequest

COVERS = (
    "launch/schedulers/job.py",
    "launch/schedulers/local.py",
)

each_scheduler = pytest.mark.parametrize("name", list(schedulers.REGISTRY))


def make(**changes) -> JobRequest:
    kept = {
        "name": "b", "command": ("true",), "folder": "/", "logs": "/logs", "nodes": 1, **changes
    }  # fmt: skip
    return JobRequest(**kept)


@each_scheduler
def test_registered_under_its_name(name):
    assert schedulers.get(name).name == name


def test_unknown_scheduler_is_unsupported():
    with pytest.raises(StackproofError) as caught:
        schedulers.get("pbs")
    assert caught.value.reason is Reason.UNSUPPORTED


@each_scheduler
def test_the_script_is_one_and_becomes_the_command(name, tmp_path):
    """Run by the shell, as a scheduler does: in the folder, with every word as it was given."""
    words = ("a b", "it's", "$HOME", "", "*", "ä", "-n", "#x")
    command = ("sh", "-c", 'pwd; for word; do printf "<%s>" "$word"; done', "sh", *words)
    script = schedulers.get(name).script(make(command=command, folder=str(tmp_path)))
    assert script.startswith("#!/bin/sh\n")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)  # fmt: skip
    assert done.stdout == f"{tmp_path}\n" + "".join(f"<{word}>" for word in words)
    assert done.stderr == ""


@each_scheduler
@given(st.text(max_size=60))
def test_no_name_of_a_bench_breaks_the_script(name, text):
    plain = schedulers.get(name).script(make()).splitlines()
    assert len(schedulers.get(name).script(make(name=text)).splitlines()) == len(plain)


@each_scheduler
def test_handing_in_names_the_script_last(name):
    scheduler = schedulers.get(name)
    command = scheduler.submit(make(), "/r/job/script.sh", {"PATH": "/bin", "LD_PRELOAD": "x"})
    assert command.argv[-1] == "/r/job/script.sh"
    assert "LD_PRELOAD" not in command.env.set


@each_scheduler
def test_a_job_that_queues_can_be_asked_about_and_ended(name):
    scheduler = schedulers.get(name)
    queries, cancel = scheduler.queries("17"), scheduler.cancel_argv("17")
    assert bool(queries) == bool(cancel) == scheduler.queues
    for query in queries:
        assert any("17" in word for word in query.argv)
        assert query.read(b"\xff\x00 nonsense {") is None
    assert not cancel or cancel[-1] == "17"


@each_scheduler
def test_what_cannot_be_asked_for_is_invalid(name):
    with pytest.raises(StackproofError) as caught:
        schedulers.get(name).script(make(options={"output": "x", "a b": "y"}))
    assert caught.value.reason is Reason.INVALID_VALUE
    assert len(caught.value.problems) == 2
