"""An installation on the nodes of a Slurm job: one srun, whose tasks install into one store.

Everything that a worker needs lies in folders that its node must see as well: the tree of the
build, the caches, this program and its Python. `task.py` looks before it begins.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from stackproof.build.engines.spack import workers
from stackproof.build.engines.spack.effects import task
from stackproof.build.engines.spack.layout import SPACK_CLONE
from stackproof.build.engines.spack.workers import Workers, WorkerState
from stackproof.build.plan import BUILD
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files, sandbox
from stackproof.core.effects.run import Watcher, failure, run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace
from stackproof.launch import slurm
from stackproof.launch.effects import scheduler
from stackproof.launch.effects.scheduler import Door

# What of srun's own words is news: that it waits in the queue, that it lost something.
_TOLD = ("srun: job ", "srun: error: Node failure")
_FILE = "workers.json"
_ANSWER_S = 60.0
# What a user sets for srun counts when it gets the nodes itself (srun(1), input environment).
_VARIABLES = (
    "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_ACCOUNT", "SLURM_CONSTRAINT", "SLURM_PARTITION",
    "SLURM_QOS", "SLURM_RESERVATION", "SLURM_TIMELIMIT",
)  # fmt: skip
# What it has to know of a job around it: the rest of the job's variables would change the step.
_IN_JOB = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JOB_ID")


def install(
    command: Command, wanted: Workers, tree: Path, monitor: Monitor, *, log: Path, watch: Watcher
) -> Completed:
    """Run a call of `spack install` on each node at once; return how they ended, as one.

    The outputs are put one behind the other. It went well when one worker ended well: then all is
    installed, whatever became of the others. Raises `StackproofError`: JOB_FAILED when Slurm
    starts nothing, FILE_MISSING when nodes do not see the build, NODE_UNREACHABLE when nobody was
    left to finish, TOOL_MISSING, CLUSTER_DOWN.
    """
    in_job = wanted.cluster is None and "SLURM_JOB_ID" in os.environ
    at = Door() if in_job else scheduler.door(wanted.cluster)
    name = f"stackproof-build-{secrets.token_hex(4)}"
    path, token = _write(command, wanted, tree)
    program = (sys.executable, "-I", "-S", task.__file__, os.fspath(path), token)
    argv = workers.srun_argv(wanted, name, program, in_job=in_job)
    if at.state:
        up.share(at.state, _shared(command, tree))
    names = _IN_JOB if in_job else _VARIABLES
    given = {key: os.environ[key] for key in names if key in os.environ}
    env = EnvPatch(set=given, unset=("TMPDIR",))
    ready = Command(argv=_through(at, argv), env=env, ok=command.ok)
    try:
        done = run(ready, log=log, watch=_watcher(watch, monitor))
    except StackproofError as error:
        raise _without_slurm(error) from error
    except BaseException:
        _cancel(at, env, name, os.environ.get("SLURM_JOB_ID") if in_job else None)
        raise
    return _joined(replace(ready, argv=argv), done, wanted, log, monitor)


def _write(command: Command, wanted: Workers, tree: Path) -> tuple[Path, str]:
    """Write what the workers run; return the file, and the word that proves it is this one."""
    box = command.sandbox
    binds = box.binds if box else ()
    spack = next((Path(b.source) for b in binds if b.target == f"{BUILD}/{SPACK_CLONE}"), None)
    call = workers.install_call(
        command, wanted, old_installer=spack is not None and _has_two_installers(spack)
    )
    token = secrets.token_hex(8)
    path = tree / _FILE
    argv = sandbox.argv(call)
    needs = [*([sandbox.program()] if box else []), *(bind.source for bind in binds)]
    files.write(path, json.dumps({"token": token, "argv": argv, "needs": needs}) + "\n")
    return path, token


def _has_two_installers(spack: Path) -> bool:
    """Return whether this Spack knows the setting `config:installer`; others refuse it."""
    return any(
        line.strip().startswith("installer:")
        for path in (spack / "etc" / "spack" / "defaults").glob("**/config.yaml")
        for line in path.read_text(encoding="utf-8").splitlines()
    )


def _shared(command: Command, tree: Path) -> tuple[str, ...]:
    """Return what a cluster of this machine has to show its nodes."""
    binds = command.sandbox.binds if command.sandbox else ()
    own = (sys.prefix, sys.base_prefix, os.path.dirname(task.__file__), os.fspath(tree))
    return tuple(dict.fromkeys((*own, *(bind.source for bind in binds))))


def _through(at: Door, argv: tuple[str, ...]) -> tuple[str, ...]:
    return cluster_model.enter_argv(at.state, None, argv) if at.state else argv


def _watcher(watch: Watcher, monitor: Monitor) -> Callable[[str], None]:
    def take(line: str) -> None:
        number, said = workers.unlabelled(line)
        if said.startswith(workers.MARK):
            return
        if number is None:
            if said.startswith(_TOLD):
                monitor(Event(what="note", name="slurm", text=said.removeprefix("srun: ")))
            return
        watch(said)

    return take


def _cancel(at: Door, env: EnvPatch, name: str, job: str | None) -> None:
    """End what an srun that was ended may leave behind: it only asks Slurm, and does not wait."""

    def call(argv: tuple[str, ...]) -> bytes:
        return run(Command(argv=_through(at, argv), env=env, timeout_s=_ANSWER_S)).stdout

    for argv in workers.cancel_argv(name, job):
        said = call(argv)
        kill = slurm.kill_steps_argv(said) if job else ()
        if kill:
            call(kill)


def _joined(
    command: Command, done: Completed, wanted: Workers, log: Path, monitor: Monitor
) -> Completed:
    text = done.stdout.decode(errors="replace") + "\n" + done.stderr.decode(errors="replace")
    states = workers.states(text)
    if not states:
        raise failure(command, done, log=log, reason=Reason.JOB_FAILED)
    good = [one for one in states.values() if one.code in command.ok]
    ended = [one for one in states.values() if one.code is not None]
    away = _absent(states, wanted)
    if not good and not ended:
        raise _nobody_left(states, away, log)
    for text_of_one in away:
        monitor(Event(what="note", name="slurm", text=text_of_one))
    code = 0 if good else next(one.code or 1 for one in ended)
    ordered = workers.by_worker(text).encode()
    return replace(done, returncode=code, stdout=ordered, stderr=b"", timed_out=False)


def _absent(states: dict[int, WorkerState], wanted: Workers) -> list[str]:
    """Return who took no part to the end, in words."""
    found = [
        f"`{one.node}` took no part: it does not see `{one.lacks}`" if one.lacks
        else f"`{one.node}` was lost"
        for one in states.values() if one.code is None
    ]  # fmt: skip
    silent = wanted.nodes - len(states)
    return [*found, *([f"{silent} of {wanted.nodes} workers never began"] if silent > 0 else [])]


def _nobody_left(states: dict[int, WorkerState], away: list[str], log: Path) -> StackproofError:
    blind = [one for one in states.values() if one.lacks]
    if len(blind) == len(states):
        return fail(
            Reason.FILE_MISSING,
            f"the nodes do not see the build: {'; '.join(away)}",
            hint="build in a folder that all nodes share: --build-dir DIR, and STACKPROOF_CACHE "
            "for the caches; stackproof and its Python must be there too",
        )
    return fail(
        Reason.NODE_UNREACHABLE,
        f"nobody was left to finish the installation: {'; '.join(away)}",
        hint=f"run the same command again: it goes on with what is installed; the output so far "
        f"is in `{log}`",
    )


def _without_slurm(error: StackproofError) -> StackproofError:
    if error.reason is not Reason.TOOL_MISSING:
        return error
    return fail(
        Reason.TOOL_MISSING,
        "there is no `srun` here",
        hint="run this where jobs are handed in, or bring up a cluster with `stackproof cluster "
        "up --slurm`",
    )
