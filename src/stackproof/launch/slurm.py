"""Slurm: batch scripts, command lines, and what they print, of 22.05 and later.

Options and their meaning: sbatch(1), squeue(1), scancel(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import Value

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


class JobRequest(Value):
    """A batch job.

    `command` runs once, on the first node of the allocation, in `folder`; its output is appended
    to files in `logs`. `nodes` is how many nodes it gets, `node_names` which ones must be among
    them, `tasks_per_node` how many tasks a step will have on a node at most. With `elements` that
    many jobs run independently, each with an allocation and one of these numbers of its own.
    `options` are further options of sbatch by their long names; an empty value is an option
    without one, `no` one that must not be set.
    """

    name: str
    command: tuple[str, ...]
    folder: str
    logs: str
    nodes: int
    node_names: tuple[str, ...] = ()
    tasks_per_node: int = 1
    elements: tuple[int, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


class Job(Value):
    """A job that was submitted, as a results folder keeps it.

    `cluster` is the cluster of this machine whose Slurm has it, None for the machine's own.
    `interface` is what ready placements use between nodes, `rate_mb_s` the rate of a node's link
    where the submitter knows it (MB/s of 10^6 bytes), `facts` what else is known of the nodes.
    `command` is the user's command line.
    """

    SCHEMA: ClassVar[str] = "stackproof/job/1"

    id: str
    cluster: str | None
    options: Mapping[str, str]
    command: tuple[str, ...]
    interface: str | None = None
    rate_mb_s: float | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


def render_script(request: JobRequest) -> str:
    """Return a batch script: what is asked for, then the command in the shell's place.

    In its place, so that a signal to the batch step reaches the command at once. Raises
    `StackproofError` (INVALID_VALUE) with every option that it cannot have.
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


def submit_command(request: JobRequest, script: str, environment: Mapping[str, str]) -> Command:
    """Return the sbatch command.

    A variable of the user's beats a line of the script, so those that the request decides are
    left out. `environment` is the user's.
    """
    kept = {
        name: environment[name]
        for name, option in _VARIABLES.items()
        if name in environment and option not in request.options
    }
    kept |= {name: environment[name] for name in ("SLURM_CONF",) if name in environment}
    argv = ("sbatch", "--parsable", "--export=ALL", script)
    return Command(argv=argv, env=EnvPatch(set=kept, unset=("TMPDIR",)), timeout_s=_SUBMIT_S)


def job_id(stdout: bytes) -> str | None:
    """Return the number in `17` or `17;cluster`."""
    match = re.match(rb"\s*(\d+)(?:;|\s|$)", stdout)
    return match[1].decode() if match else None


def queued_argv(job: str) -> tuple[str, ...]:
    """Return the command line that prints the states of a job's parts that have not ended."""
    return ("squeue", "--noheader", f"--jobs={job}", "--format=%T")


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
