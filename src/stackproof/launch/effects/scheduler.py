"""Slurm for real: submit a job, and ask whether one has ended."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.core import limits
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import documents, files
from stackproof.core.effects.run import failure, run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.launch import slurm
from stackproof.launch.slurm import Job, JobRequest
from stackproof.results.model import LAUNCHES

_ANSWER_S = 60.0
_UNKNOWN = b"Invalid job id"
_KEPT = "SLURM_CONF"
# That somebody cancelled a job is no fault of what it ran.
_FAULT = re.compile(r"(?im)^(?!.* CANCELLED AT (?!.*TIME LIMIT)).*(?:error|not found).*$")


class Door(Value):
    """How the commands of a scheduler are reached: here, or on the head of a cluster."""

    state: ClusterState | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> str | None:
        """Return the name of the cluster of this machine, None for the machine's own scheduler."""
        return self.state.name if self.state else None

    def run(self, command: Command) -> Completed:
        """Run one command of the scheduler; raises what `core.effects.run.run` raises."""
        argv = command.argv
        if self.state:
            argv = cluster_model.enter_argv(self.state, None, argv)
        here = {_KEPT: self.environment[_KEPT]} if _KEPT in self.environment else {}
        env = EnvPatch(set=here).then(command.env)
        return run(Command(argv=argv, env=env, timeout_s=command.timeout_s or _ANSWER_S))


def door(name: str | None) -> Door:
    """Return the way to Slurm: of the cluster `name`, else of the default cluster or the machine.

    Raises `StackproofError`: CLUSTER_DOWN, UNSUPPORTED for a cluster without Slurm.
    """
    environment = dict(os.environ)
    state = None
    if name is None:
        found = up.status(ClusterSpec().name)
        state = found if found and found.slurm else None
    else:
        state = up.reach(name)
        if state.slurm is None:
            raise fail(
                Reason.UNSUPPORTED,
                f"the cluster `{name}` has no Slurm",
                hint="bring it up with `stackproof cluster up --slurm`",
            )
    return Door(state=state, environment=environment)


def submit(at: Door, request: JobRequest, script: str) -> str:
    """Submit the script in the file `script` and return the job's id.

    Raises `StackproofError`: JOB_FAILED with Slurm's words when it refuses, TOOL_MISSING.
    """
    command = slurm.submit_command(request, script, at.environment)
    try:
        done = at.run(command)
    except StackproofError as error:
        if error.reason is not Reason.TOOL_MISSING or at.state:
            raise
        raise fail(
            Reason.TOOL_MISSING,
            f"there is no `{command.argv[0]}` here",
            hint="run this where jobs are submitted, or bring up a cluster with `stackproof "
            "cluster up --slurm`",
        ) from error
    job = slurm.job_id(done.stdout) if done.returncode == 0 else None
    if job is None:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)
    return job


def has_ended(at: Door, job: str) -> bool:
    """Return false where a part of a job waits, runs or is ending.

    Slurm forgets a job that has ended some minutes before. Raises `StackproofError` (JOB_FAILED)
    where it gives no answer.
    """
    command = Command(argv=slurm.queued_argv(job))
    done = at.run(command)
    if done.returncode != 0 and _UNKNOWN not in done.stderr:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)
    return not done.stdout.strip()


def load_job(folder: Path) -> Job | None:
    """Return the job that was submitted last for a results folder, None for none."""
    return documents.load_noun(Job, folder / "job" / "job.json")


def find_fault(folder: Path, job: Job) -> tuple[str, Path | None]:
    """Return the last error that a job without a launch printed, and its log; empty for none."""
    since = (folder / "job" / "job.json").stat().st_mtime
    if any(path.stat().st_mtime >= since for path in (folder / LAUNCHES).glob("*.json")):
        return "", None
    for log in sorted((folder / "logs").glob(f"job-{job.id}[._]*log")):
        text = files.read_bounded(log, limits.RESULTS).decode(errors="replace")
        if faults := _FAULT.findall(text):
            return re.sub(r"^error: | \[[a-z-]+\]$", "", faults[-1].strip()), log
    return "", None
