"""Jobs of a scheduler for real: hand one in, wait for it, ask about it, end it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from msgspec import field

from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects.run import failure, run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.launch.schedulers import JobRequest, JobState, JobStatus, Scheduler

_ANSWER_S = 60.0
_LOOK_S = (0.1, 2.0)
_ASK_S = (0.5, 30.0)
_SILENCE_S = 300.0
_SETTLE_S = 30.0
_UNKNOWN = b"Invalid job id"
_KEPT = "SLURM_CONF"

GONE = JobStatus(state=JobState.GONE, said="not known to the scheduler")


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


def submit(scheduler: Scheduler, at: Door, request: JobRequest, script: str) -> str:
    """Hand in the script in the file `script` and return the job's id.

    Raises `StackproofError`: JOB_FAILED with the scheduler's words when it refuses, TOOL_MISSING.
    """
    command = scheduler.submit(request, script, at.environment)
    try:
        done = at.run(command)
    except StackproofError as error:
        if error.reason is not Reason.TOOL_MISSING or at.state:
            raise
        raise fail(
            Reason.TOOL_MISSING,
            f"there is no `{command.argv[0]}` here",
            hint="run this where jobs are handed in, or bring up a cluster with `stackproof "
            "cluster up --slurm`",
        ) from error
    job = scheduler.job_id(done.stdout) if done.returncode == 0 else None
    if job is None:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)
    return job


def status(scheduler: Scheduler, at: Door, job: str) -> tuple[JobStatus, ...]:
    """Return what the scheduler says of a job: `GONE` if it knows none, nothing if it is silent.

    A controller that is being restarted does not answer, which says nothing of the job.
    """
    unknown = False
    for query in scheduler.queries(job):
        try:
            done = at.run(Command(argv=query.argv))
        except StackproofError:  # one of the commands is not installed
            continue
        found = query.read(done.stdout) if done.returncode == 0 else None
        if found:
            return found
        unknown = unknown or found is not None or _UNKNOWN in done.stderr
    return (GONE,) if unknown else ()


def cancel(scheduler: Scheduler, at: Door, job: str) -> None:
    """End a job; one that has ended is no error. Raises `StackproofError` (JOB_FAILED)."""
    argv = scheduler.cancel_argv(job)
    if not argv:
        return
    command = Command(argv=argv)
    done = at.run(command)
    if done.returncode != 0 and _UNKNOWN not in done.stderr:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)


def wait(
    scheduler: Scheduler,
    at: Door,
    job: str,
    *,
    over: Callable[[], bool],
    told: Callable[[tuple[JobStatus, ...]], None],
) -> tuple[JobStatus, ...]:
    """Wait until `over` says so or no part of the job is active; return the last status.

    `told` hears every answer of the scheduler. Raises `StackproofError`: CLUSTER_DOWN when the
    cluster has gone, JOB_FAILED when nobody has answered for five minutes.

    Nothing that could wake a waiting process works everywhere: inotify(7) does not see what
    another machine writes into a network file system, `sbatch --wait` ends with the connection and
    asks every ten seconds itself, and a connection of our own to the job would be one more thing
    to lose. So two things are polled, with a back-off. The results folder, which the job writes
    to, is looked at often: that costs a stat and shows progress and a proper end. The scheduler,
    which all users of a machine share, is asked after a tenth of the time waited so far: that
    shows a wait in the queue, and every end of which the job itself could not tell.
    """
    begin = answered = time.monotonic()
    ask_at, pause = begin, _LOOK_S[0]
    known: tuple[JobStatus, ...] = ()
    while not over():
        now = time.monotonic()
        if now >= ask_at:
            found = status(scheduler, at, job)
            if found:
                answered, known = now, found
                told(found)
                if not any(part.state.active for part in found):
                    break
            elif now - answered > _SILENCE_S:
                raise fail(
                    Reason.JOB_FAILED,
                    f"nobody has answered about the job `{job}` for {_SILENCE_S:.0f} s",
                    hint="see whether the scheduler works, then continue with --resume",
                )
            elif at.state:
                up.reach(at.state.name)
            ask_at = now + min(max((now - begin) / 10, _ASK_S[0]), _ASK_S[1])
        time.sleep(pause)
        pause = min(pause * 1.2, _LOOK_S[1])
    return known


def settled(scheduler: Scheduler, at: Door, job: str) -> tuple[JobStatus, ...]:
    """Return what becomes of a job that has done its last act: the state after it has let go.

    For a moment it still counts as running; after that it has ended, or waits again because the
    scheduler put it back into the queue for a reason of its own.
    """
    end = time.monotonic() + _SETTLE_S
    while True:
        found = status(scheduler, at, job)
        running = any(part.state is JobState.RUNNING for part in found)
        if not running or time.monotonic() > end:
            return found
        time.sleep(_ASK_S[0])
