"""Several `spack install` on the nodes of a Slurm job: their command lines, and what they say.

They share one store. Spack's own locks give every package to one of them (the installer's
docstring in lib/spack/spack/installer.py, github.com/spack/spack, v1.1; Spack's documentation,
"Distributed builds"): a worker that finds a package locked goes on with another one, and all end
when everything is installed. So one worker that ends well is proof for the whole, and the work of
one that was lost is done by the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec import field

from stackproof.core.command import Command
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value, replace

MARK = "stackproof-worker:"
"""How a line begins that a worker's program says itself; JSON follows."""
CORES = "@cores@"
"""Stands for the number of cores of whichever node a worker runs on."""
_LABEL = re.compile(r"\s*(?P<number>\d+): ?(?P<text>.*)", re.DOTALL)
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
# What decides how many workers there are, where their output goes, and what ends them.
_OWN = frozenset({
    "chdir", "cpu-bind", "error", "export", "input", "job-name", "kill-on-bad-exit", "label",
    "mpi", "multi-prog", "no-kill", "nodes", "ntasks", "ntasks-per-node", "output", "wait",
})  # fmt: skip


class Workers(Value):
    """Where packages are installed: a worker on each of `nodes` nodes.

    `options` are further options of srun by their long names; an empty value is an option without
    one, `no` one that must not be set. `cluster` is the cluster of this machine whose Slurm is
    asked, `jobs` how many processes a worker starts at once, None for all cores of its node.
    """

    nodes: int
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None
    jobs: int | None = None


class WorkerState(Value):
    """What a worker said of itself: its node, its exit code once it has ended, what it lacks.

    `lacks` is a path of the build that is not to be seen on its node.
    """

    node: str
    code: int | None = None
    lacks: str | None = None


def problems(workers: Workers) -> tuple[Problem, ...]:
    """Return what is wrong with the options, all of it."""
    found = []
    for name, value in workers.options.items():
        if not _OPTION.fullmatch(name):
            message = f"`{name}` is not the long name of an option of srun"
            hint = "write it without dashes in front, as in `partition=debug`"
        elif name in _OWN:
            message, hint = f"the option `{name}` of srun is set by stackproof", "leave it out"
        elif "\0" in value:
            message, hint = f"the value of the option `{name}` holds a NUL", "take it out"
        else:
            continue
        found.append(Problem(reason=Reason.USAGE, message=message, hint=hint))
    if workers.nodes < 1:
        message = f"{workers.nodes} nodes cannot build anything"
        found.append(Problem(reason=Reason.USAGE, message=message, hint="say --nodes N, from 1 on"))
    return tuple(found)


def srun_argv(
    workers: Workers, name: str, program: tuple[str, ...], *, in_job: bool
) -> tuple[str, ...]:
    """Return the command line that runs `program` once on each node and waits for all of them.

    Outside of a job srun(1) gets the nodes itself, whole ones; `in_job` they are those of the job
    around. A worker that fails, or whose node dies, does not end the others. `name` is the name of
    job or step.
    """
    count = workers.nodes
    # For a step `--exclusive` would mean one CPU.
    more = {**({} if in_job else {"exclusive": ""}), **workers.options}
    return (
        "srun", f"--job-name={name}", f"--nodes={count}", f"--ntasks={count}",
        "--ntasks-per-node=1", "--label", "--no-kill", "--kill-on-bad-exit=0", "--wait=0",
        "--mpi=none", "--cpu-bind=none", "--input=none", "--chdir=/", "--export=ALL",
        *(f"--{key}={value}" if value else f"--{key}" for key, value in more.items()
          if value != "no"),
        *program,
    )  # fmt: skip


def cancel_argv(name: str, job: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the command lines that end what an interrupted srun may leave, by its name.

    In a job its own steps are asked for first: `launch.slurm.kill_steps_argv` reads
    that.
    """
    if job is None:
        return (("scancel", f"--name={name}"),)
    return (("squeue", "--steps", "--noheader", f"--jobs={job}", f"--name={name}", "--format=%i"),)


def install_call(command: Command, workers: Workers, *, old_installer: bool) -> Command:
    """Return a call of `spack install` as one of several workers makes it.

    It uses the cores of its node. With `old_installer` (a Spack that has two) the one that locks
    single packages is asked for: the other one locks the whole store, and workers would wait for
    each other (lib/spack/spack/new_installer.py, v1.1).
    """
    words = list(command.argv)
    at = words.index("install")
    words.insert(at + 1, f"--jobs={workers.jobs or CORES}")
    if old_installer:
        words[1:1] = ["-c", "config:installer:old"]
    return replace(command, argv=tuple(words))


def unlabelled(line: str) -> tuple[int | None, str]:
    """Return the number of the worker that said a line, and the line; None for srun's own."""
    found = _LABEL.fullmatch(line)
    return (int(found["number"]), found["text"]) if found else (None, line)


def by_worker(text: str) -> str:
    """Return the output of all workers, not mixed any more: worker after worker, then srun's."""
    spoken: dict[int, list[str]] = {}
    rest: list[str] = []
    for line in text.splitlines():
        number, said = unlabelled(line)
        if said.startswith(MARK):
            continue
        (rest if number is None else spoken.setdefault(number, [])).append(said)
    parts = [line for number in sorted(spoken) for line in spoken[number]]
    return "\n".join([*parts, *rest])


def states(text: str) -> dict[int, WorkerState]:
    """Return what each worker last said of itself; those that never began are not there."""
    found: dict[int, WorkerState] = {}
    for line in text.splitlines():
        number, said = unlabelled(line)
        if number is None or not said.startswith(MARK):
            continue
        try:
            data = json.loads(said.removeprefix(MARK))
            state = WorkerState(
                node=str(data["node"]), code=data.get("code"), lacks=data.get("lacks")
            )
        except (ValueError, KeyError, TypeError, AttributeError):  # torn off when its node died
            continue
        found[number] = state
    return found
