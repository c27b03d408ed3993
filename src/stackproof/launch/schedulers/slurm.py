"""Slurm: batch scripts, command lines, and the answers of 22.05 and later.

Options and their meaning: sbatch(1), scontrol(1), squeue(1), sacct(1), scancel(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.launch.schedulers.job import JobRequest, JobState, JobStatus, Query

ELEMENT = "SLURM_ARRAY_TASK_ID"
"""Environment variable of a job: which element of an array it is; not set outside of arrays."""

# The nodes belong to the job alone: another's job beside the ranks would be measured with them.
# What was done is kept when the job is put back into the queue, so that it may be.
_DEFAULTS = {"exclusive": "", "requeue": ""}
_OWN = frozenset({
    "array", "chdir", "error", "export", "get-user-env", "job-name", "nodes", "ntasks",
    "ntasks-per-node", "open-mode", "output", "parsable", "quiet", "test-only", "wait", "wrap",
})  # fmt: skip
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
# A job inherits its submitter's environment; these defaults of a user's are for sbatch itself.
_VARIABLES = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_TIMELIMIT": "time",
}
_SUBMIT_S = 60.0
_MOST_NODES = 100_000
"""More than any machine has."""

_STATES = {
    "PENDING": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "COMPLETING": JobState.RUNNING,
    "CONFIGURING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "COMPLETED": JobState.DONE,
    "BOOT_FAIL": JobState.FAILED,
    "DEADLINE": JobState.FAILED,
    "FAILED": JobState.FAILED,
    "LAUNCH_FAILED": JobState.FAILED,
    "OUT_OF_MEMORY": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "PREEMPTED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "NODE_FAIL": JobState.NODE_FAIL,
}
_NO_REASON = {"", "None", "NONE"}


class Slurm:
    """The scheduler of most large machines."""

    name = "slurm"
    queues = True

    def script(self, request: JobRequest) -> str:
        """Return a batch script: what is asked for, then the command in the shell's place.

        In its place, so that a signal to the batch step reaches the command at once.
        """
        options = {**_DEFAULTS, **request.options}
        faults = [_fault(name, value) for name, value in request.options.items()]
        if any(faults):
            raise StackproofError(*(fault for fault in faults if fault))
        which = "%A_%a" if request.elements else "%j"
        wanted = {
            "job-name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"stackproof-{request.name}"),
            "nodes": str(request.nodes),
            "ntasks-per-node": str(request.tasks_per_node),
            "chdir": request.folder,
            # In a file name `%` begins a pattern.
            "output": f"{request.logs.replace('%', '%%')}/job-{which}.log",
            "open-mode": "append",
        }
        if request.node_names:
            wanted["nodelist"] = ",".join(request.node_names)
        if request.elements:
            wanted["array"] = ",".join(map(str, request.elements))
        wanted |= {name: value for name, value in options.items() if value != "no"}
        lines = [f"#SBATCH --{name}{_value(value)}" for name, value in wanted.items()]
        return "\n".join(("#!/bin/sh", *lines, f"exec {shlex.join(request.command)}")) + "\n"

    def submit(self, request: JobRequest, script: str, environment: Mapping[str, str]) -> Command:
        """Return the sbatch command.

        A variable of the user's beats a line of the script, so those that the request decides are
        left out.
        """
        kept = {
            name: environment[name]
            for name, option in _VARIABLES.items()
            if name in environment and option not in request.options
        }
        kept |= {name: environment[name] for name in ("SLURM_CONF",) if name in environment}
        argv = ("sbatch", "--parsable", "--export=ALL", script)
        return Command(argv=argv, env=EnvPatch(set=kept, unset=("TMPDIR",)), timeout_s=_SUBMIT_S)

    def job_id(self, stdout: bytes) -> str | None:
        """Return the number in `17` or `17;cluster`."""
        match = re.match(rb"\s*(\d+)(?:;|\s|$)", stdout)
        return match[1].decode() if match else None

    def queries(self, job: str) -> tuple[Query, ...]:
        """Return the commands that know of a job, those that cost the controller least first.

        `scontrol --json` is there since 23.11 or so, as is the filter of `squeue --json`: that of
        22.05 prints every job of the machine. Finished jobs are forgotten by the controller after
        MinJobAge (slurm.conf), and remain in the accounting where there is one.
        """
        return (
            Query(("scontrol", "--json", "show", "job", job), partial(read_json, job)),
            Query(("scontrol", "--oneliner", "show", "job", job), partial(read_lines, job)),
            Query(("squeue", "--json", f"--jobs={job}"), partial(read_json, job)),
            Query(
                (
                    "sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}",
                    "--format=JobID,State,Restarts",
                ),
                partial(read_accounting, job),
            ),
        )  # fmt: skip

    def cancel_argv(self, job: str) -> tuple[str, ...]:
        """Return the scancel command line; a job that has ended is no error of it."""
        return ("scancel", job)


def state_of(words: list[str]) -> JobState:
    """Return the state that Slurm's words for one job mean together.

    Later releases give a base state and flags: `["CANCELLED", "COMPLETING"]` is still ending, and
    `["NODE_FAIL", "REQUEUED"]` waits again.
    """
    found = [_STATES[word] for word in words if word in _STATES]
    for state in (JobState.RUNNING, JobState.PENDING):
        if state in found:
            return state
    # A state of a release to come: what cannot be told apart from an ended job is asked again.
    return found[0] if found else JobState.RUNNING


def read_json(job: str, stdout: bytes) -> tuple[JobStatus, ...] | None:
    """Return the job's elements from `squeue --json` or `scontrol --json show job`.

    In 22.05 values are plain; later ones are `{"set": true, "number": 3}`, and states are lists.
    """
    try:
        data = msgspec.json.decode(stdout)
        jobs = [entry for entry in data["jobs"] if _belongs(job, entry)]
        return tuple(
            JobStatus(
                state=state_of(words),
                said="+".join(words),
                reason=_reason(entry.get("state_reason")),
                restarts=_number(entry.get("restart_cnt")) or 0,
                element=_number(entry.get("array_task_id")),
            )
            for entry in jobs
            for words in [_words(entry["job_state"])]
        )
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError, AttributeError):
        return None


def read_lines(job: str, stdout: bytes) -> tuple[JobStatus, ...] | None:
    """Return the job's elements from `scontrol --oneliner show job`, one in each line."""
    found = []
    for line in stdout.decode(errors="replace").splitlines():
        fields = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line))
        if "JobState" not in fields:
            return None
        if job not in {fields.get("JobId"), fields.get("ArrayJobId")}:
            continue
        words = fields["JobState"].split("+")
        element = fields.get("ArrayTaskId", "")
        found.append(
            JobStatus(
                state=state_of(words),
                said="+".join(words),
                reason=_reason(fields.get("Reason")),
                restarts=int(fields["Restarts"]) if fields.get("Restarts", "").isdecimal() else 0,
                element=int(element) if element.isdecimal() else None,
            )
        )
    return tuple(found)


def read_accounting(job: str, stdout: bytes) -> tuple[JobStatus, ...] | None:
    """Return the job's elements from `sacct --parsable2`: `17_0|CANCELLED by 0|1`."""
    found = []
    for line in stdout.decode(errors="replace").splitlines():
        fields = line.split("|")
        if len(fields) != 3:
            return None
        number, _, element = fields[0].partition("_")
        if number != job:
            continue
        words = fields[1].split()[:1]
        found.append(
            JobStatus(
                state=state_of(words),
                said="".join(words),
                restarts=int(fields[2]) if fields[2].isdecimal() else 0,
                element=int(element) if element.isdecimal() else None,
            )
        )
    return tuple(found)


def steps_argv(job: str) -> tuple[str, ...]:
    """Return the command line that prints the ids of a job's running steps, one in each line."""
    return ("squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i")


def cpus_per_node(text: str) -> tuple[int, ...]:
    """Return how many CPUs a job got on each node, in their order, from `2(x3),4` (sbatch(1)).

    Nothing for a text that is none of these.
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:\(x([0-9]{1,5})\))?", part)
        if not match or len(found) > _MOST_NODES:
            return ()
        found += [int(match[1])] * int(match[2] or 1)
    return tuple(found)


def kill_steps_argv(stdout: bytes) -> tuple[str, ...]:
    """Return the command line that kills the steps whose ids were printed; empty without any.

    The batch script and what Slurm itself runs are steps as well, with names for numbers.
    """
    steps = re.findall(rb"^\s*(\d+(?:_\d+)?\.\d+)\s*$", stdout, re.MULTILINE)
    words = tuple(step.decode() for step in steps)
    return ("scancel", "--signal=KILL", *words) if words else ()


def _fault(name: str, value: str) -> Problem | None:
    if not _OPTION.fullmatch(name):
        message = f"`{name}` is not the long name of an option of sbatch"
        hint = "write it without dashes in front, as in `partition=debug`"
    elif name in _OWN:
        message, hint = f"the option `{name}` of sbatch is set by stackproof", "leave it out"
    elif not value.isprintable():
        message, hint = f"the value of the option `{name}` cannot stand in a batch script", None
    else:
        return None
    return Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint)


def _value(text: str) -> str:
    """Return `=VALUE` as a line of a batch script takes it; nothing for an empty one.

    sbatch reads quotes and backslashes of such lines as a shell does.
    """
    if not text:
        return ""
    plain = re.fullmatch(r"[A-Za-z0-9_./:,%@+=&|*\[\]-]+", text)
    if plain:
        return f"={text}"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'="{escaped}"'


def _belongs(job: str, entry: Mapping[str, Any]) -> bool:
    return int(job) in {_number(entry["job_id"]), _number(entry.get("array_job_id"))}


def _number(value: Any) -> int | None:
    if isinstance(value, Mapping):
        return value["number"] if value.get("set") else None
    return value if isinstance(value, int) else None


def _words(value: Any) -> list[str]:
    return list(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split("+")
    else:
        for word in value:
            yield str(word)


def _reason(value: Any) -> str:
    return "" if not isinstance(value, str) or value in _NO_REASON else value
