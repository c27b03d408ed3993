"""Inside a job of Flux or of PBS: which nodes it has, and the launcher that starts ranks there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from stackproof.core import limits
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects.run import base_environment, failure, run
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value

_ANSWER_S = 60.0
# What the launchers must know to find their job; all else is on their command lines.
_KEPT = ("FLUX_", "PBS_", "PALS_")


class SchedulerJob(Value):
    """A running job: `launcher` is a name in `launch.launchers`, `program` the launcher's path.

    `nodes` are in the scheduler's order, each once; `environment` is what the launcher needs.
    """

    scheduler: str
    job: str
    launcher: str
    program: str
    nodes: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> str:
        """Return the variable that tells a task its number.

        flux-environment(7); PALS's is in flux-shell-cray-pals(1), which sets it as well.
        """
        return {"flux": "FLUX_TASK_RANK", "pals": "PALS_RANKID"}[self.launcher]


def enter() -> SchedulerJob | None:
    """Return the job of Flux or PBS that this process runs in, None outside of one.

    Raises `StackproofError`: TOOL_MISSING without the launcher, JOB_FAILED where it does not tell
    the nodes, INVALID_VALUE for a list without any.
    """
    kept = {name: text for name, text in os.environ.items() if name.startswith(_KEPT)}
    if "FLUX_URI" in kept:
        program = _program("flux", "Flux")
        # flux-hostlist(1): `local` is the job that this runs in, else the whole instance.
        nodes = _said((program, "hostlist", "--expand", "local"), kept).split()
        number = kept.get("FLUX_JOB_ID") or kept["FLUX_URI"]
        return _job("Flux", number, "flux", program, nodes, kept)
    if "PBS_NODEFILE" in kept:
        program, path = _program("mpiexec", "PBS"), Path(kept["PBS_NODEFILE"])
        nodes = files.read_bounded(path, limits.SMALL_RECORD).decode(errors="replace").split()
        return _job("PBS", kept.get("PBS_JOBID", ""), "pals", program, nodes, kept)
    return None


def _job(
    scheduler: str, number: str, launcher: str, program: str, nodes: list[str], kept: dict[str, str]
) -> SchedulerJob:
    if not nodes:
        raise fail(
            Reason.INVALID_VALUE,
            f"the job {number} of {scheduler} has no nodes",
            where=Location(file=kept.get("PBS_NODEFILE", program)),
        )
    return SchedulerJob(
        scheduler=scheduler, job=number, launcher=launcher, program=program,
        nodes=tuple(sorted(dict.fromkeys(nodes))), environment=kept,
    )  # fmt: skip


def _program(name: str, scheduler: str) -> str:
    found = shutil.which(name, path=base_environment()["PATH"])
    if found is None:
        raise fail(
            Reason.TOOL_MISSING,
            f"`{name}` is not on PATH inside a job of {scheduler}",
            hint="it starts the ranks there; load the module that brings it",
        )
    return found


def _said(argv: tuple[str, ...], kept: Mapping[str, str]) -> str:
    command = Command(argv=argv, env=EnvPatch(set=dict(kept)), timeout_s=_ANSWER_S, cwd="/")
    done = run(command)
    if done.returncode != 0 or done.timed_out:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)
    return done.stdout.decode(errors="replace")
