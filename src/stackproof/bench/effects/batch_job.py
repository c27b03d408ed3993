"""A bench as a batch job: handed in, waited for, picked up again, and the job's own part of it.

The job works in the results folder, which it shares with whoever waits. Beside what
`stackproof.bench.effects.run` describes it holds

    job/job.json    the job that was handed in last (`schedulers.Job`)
    job/script.sh   its script
    job/end-N.json  how allocation N ended (`schedulers.JobEnd`); written by the job as its last act
    logs/job-*.log  what the job printed

Everything that must survive a lost connection, a requeued job or a dead node is in these files:
whoever comes next reads them, and makes the launches that have no result yet.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import stackproof
from stackproof.bench import schedule
from stackproof.bench.effects import arms as bench_arms
from stackproof.bench.effects import deciding, launching, nodes, planning, run
from stackproof.bench.effects.arms import Arms
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.cluster.effects import up
from stackproof.core import limits, noun
from stackproof.core.effects import cache_kinds, documents, files
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace
from stackproof.launch import schedulers
from stackproof.launch.effects import allocation as allocations
from stackproof.launch.effects import scheduler
from stackproof.launch.effects.scheduler import Door
from stackproof.launch.schedulers import Job, JobEnd, JobRequest, JobState, JobStatus, Scheduler
from stackproof.results.case import Placement
from stackproof.results.model import LAUNCHES

_TAIL_LINES = 20
_RESUME = "stackproof bench --resume {}"
_ENDED = {
    JobState.CANCELLED: (Reason.JOB_FAILED, "was cancelled"),
    JobState.TIMEOUT: (Reason.JOB_TIMEOUT, "ran out of its time"),
    JobState.NODE_FAIL: (Reason.NODE_UNREACHABLE, "lost a node"),
    JobState.FAILED: (Reason.JOB_FAILED, "ended badly"),
    JobState.DONE: (Reason.JOB_FAILED, "ended without a word"),
    JobState.GONE: (Reason.JOB_FAILED, "is no longer known to the scheduler"),
}
# What the scheduler knows better than the job, which may only have seen what it led to.
_DECISIVE = (JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL)


class Work(Value):
    """A results folder and what is to be done in it."""

    spec: BenchSpec
    arms: Arms
    folder: Path
    monitor: Monitor
    command: tuple[str, ...]

    @property
    def scheduler(self) -> Scheduler:
        """Return the scheduler that the specification names."""
        return schedulers.get(self.spec.on)

    @property
    def missing(self) -> tuple[Launch, ...]:
        """Return the launches that have no result."""
        return deciding.missing(run.experiment(self.spec, self.arms, self.folder, self.plan))

    @property
    def plan(self) -> tuple[Launch, ...]:
        """Return every launch that may be made."""
        return planning.schedule(self.spec, self.arms)

    @property
    def done(self) -> int:
        """Return how many launches have a result."""
        folder = self.folder / LAUNCHES
        have = set(os.listdir(folder)) if folder.is_dir() else set()
        return sum(launch.file_name in have for launch in self.plan)

    @property
    def resume(self) -> str:
        """Return the command that continues."""
        return _RESUME.format(self.folder)


def load(folder: Path) -> BenchSpec:
    """Return the specification of a results folder, with the options of its last job."""
    spec, job = run.load_spec(folder), _load_job(folder)
    return replace(spec, scheduler_options=job.options) if job else spec


def dry_run(spec: BenchSpec, folder: Path) -> str:
    """Return the script that would be handed in; nothing is written, nobody is asked.

    Raises `StackproofError` for images, placements and options that cannot be.
    """
    _refuse_rates(spec)
    bench_arms.make_ready(spec)
    elements = tuple(range(spec.allocations)) if spec.allocations > 1 else ()
    return schedulers.get(spec.on).script(_request(spec, folder.absolute(), elements))


def run_as_job(
    spec: BenchSpec, folder: Path, monitor: Monitor, *, command: tuple[str, ...] = ()
) -> None:
    """Have all launches made that have no result yet, by a job; wait for its end.

    A job of this folder that is waiting or running is waited for, not handed in again. Raises
    `StackproofError` with the job's own problems, or with what became of it; INTERRUPTED when the
    waiting was interrupted, which leaves the job alone.
    """
    _refuse_rates(spec)
    arms = planning.with_work(spec, bench_arms.make_ready(spec))
    work = Work(spec=spec, arms=arms, folder=folder.absolute(), monitor=monitor, command=command)
    at = scheduler.door(spec.cluster)
    run.claim(spec, work.arms, work.folder)
    deciding.keep_budget(work.folder, spec.budget_s)
    if not work.missing:
        planning.require_launches(work.plan, folder)
        return
    job = _current(work, at) or _hand_in(work, at)
    try:
        known = _await(work, at, job)
    except KeyboardInterrupt:
        raise fail(
            Reason.INTERRUPTED,
            f"no longer waiting; the job `{job.id}` goes on",
            hint=f"wait again with `{work.resume}`; end it with `{work.resume} --cancel`",
        ) from None
    _raise_problems(work, job, known)
    planning.require_launches(work.plan, folder)
    monitor(Event(what="done", name="job", text=f"{job.id}, results in {folder}"))


def cancel(folder: Path) -> str | None:
    """End the job of a results folder and return its id; None when there is none."""
    job = _load_job(folder)
    if job is None:
        return None
    scheduler.cancel(schedulers.get(job.scheduler), scheduler.door(job.cluster), job.id)
    return job.id


def work_in_job(folder: Path, monitor: Monitor) -> None:
    """Do the job's part: make the launches of this allocation that have no result yet.

    How it ended is written down for whoever waits. An interrupt (the job is cancelled, runs out
    of time, is put back into the queue) writes nothing: the scheduler tells of it.
    """
    job = _load_job(folder)
    if job is None:
        raise fail(Reason.FILE_MISSING, f"`{folder}` has no job", hint="leave `--in-job` out")
    spec = run.load_spec(folder)
    element = 0
    try:
        allocation = allocations.enter()
        element = allocation.element
        bench = run.prepare(spec, place=nodes.of_job(spec, job, allocation))
        run.run_bench(bench, folder, monitor, command=job.command)
    except StackproofError as error:
        _write_end(folder, element, JobEnd(id=job.id, problems=error.problems))
        raise
    _write_end(folder, element, JobEnd(id=job.id))


def _refuse_rates(spec: BenchSpec) -> None:
    """Refuse what only the cluster's owner can do, and not a job on it."""
    arms = (spec.baseline, *spec.challengers)
    slowed = [arm for arm in arms if arm.rate and schedulers.get(spec.on).queues]
    if slowed:
        raise StackproofError(
            *(
                Problem(
                    reason=Reason.UNSUPPORTED,
                    message=f"a job cannot give its links the rate `{arm.rate}`",
                    hint="leave `rate` out, or run this bench without a scheduler",
                )
                for arm in slowed
            )
        )


def _request(spec: BenchSpec, folder: Path, elements: tuple[int, ...]) -> JobRequest:
    timed = [entry for entry in spec.placements if isinstance(entry, Placement)]
    own = [*timed, *(entry for entry in spec.validated if isinstance(entry, Placement))]
    names = {node for placement in own for node in placement.nodes}
    numbers = [int(name[1:]) for name in names if name.startswith("@") and name[1:].isdecimal()]
    ready = [
        schedule.shape(entry)[0]
        for entry in (*spec.placements, *spec.validated)
        if isinstance(entry, str)
    ]
    named = tuple(sorted(name for name in names if not name.startswith("@")))
    # What is only validated may share CPUs, so that none are asked for.
    crowd = [len([r for r in one.ranks if r.node == n]) for one in timed for n in one.nodes]
    crowd += [schedule.shape(entry)[1] for entry in spec.placements if isinstance(entry, str)]
    package = os.path.dirname(os.path.dirname(os.path.abspath(stackproof.__file__)))
    return JobRequest(
        name=spec.name,
        command=(
            "env", f"PYTHONPATH={package}", f"STACKPROOF_CACHE={cache_kinds.cache()}",
            sys.executable, "-P", "-m", "stackproof", "bench",
            "--resume", os.fspath(folder), "--in-job",
        ),
        folder=os.fspath(folder),
        logs=os.fspath(folder / "logs"),
        nodes=max([1, len(named), *ready, *numbers]),
        node_names=named,
        tasks_per_node=max([1, *crowd]),
        elements=elements,
        options=spec.scheduler_options,
    )  # fmt: skip


def _hand_in(work: Work, at: Door) -> Job:
    """Write the script, submit it and keep what must be known of it."""
    spec, folder = work.spec, work.folder
    elements = tuple(sorted({launch.allocation for launch in work.missing}))
    request = _request(spec, folder, elements if spec.allocations > 1 else ())
    script = folder / "job" / "script.sh"
    files.write(script, work.scheduler.script(request), mode=0o755)
    (folder / "logs").mkdir(exist_ok=True)
    for element in elements:
        files.remove(_end_file(folder, element))
    if at.state:
        cache = os.fspath(cache_kinds.cache())
        shared = (*run.program_paths(), *work.arms.paths, os.fspath(folder), cache)
        up.share(at.state, shared)
    job = Job(
        scheduler=spec.on,
        id=scheduler.submit(work.scheduler, at, request, os.fspath(script)),
        cluster=at.cluster,
        elements=elements,
        options=spec.scheduler_options,
        command=work.command,
        submitted=launching.now(),
        interface=at.state.nodes[0].interface if at.state else None,
        rate_mb_s=at.state.rate_mb_s if at.state else None,
        facts=nodes.cluster_facts(at.state) if at.state else {},
    )
    files.write(folder / "job" / "job.json", noun.to_json(job))
    work.monitor(
        Event(what="note", name="job", text=f"{job.id}; `{work.resume}` picks it up again")
    )
    return job


def _current(work: Work, at: Door) -> Job | None:
    """Return the job of the folder if it is still waiting or running."""
    job = _load_job(work.folder)
    if job is None or job.cluster != at.cluster:
        return None
    found = scheduler.status(work.scheduler, at, job.id)
    if any(part.state.active for part in found) and not _over(work, job):
        work.monitor(Event(what="note", name="job", text=f"{job.id} is there already"))
        return job
    return None


def _await(work: Work, at: Door, job: Job) -> tuple[JobStatus, ...]:
    """Wait for the end of a job and return its last state.

    A job whose node died may have told so and be put back into the queue all the same: then what
    it told is void, and the waiting goes on.
    """
    told = _progress(work, job)
    while True:
        known = scheduler.wait(work.scheduler, at, job.id, over=lambda: _over(work, job), told=told)
        if not any(end.problems for end in _ends(work.folder, job).values()):
            return known
        known = scheduler.settled(work.scheduler, at, job.id)
        if not any(part.state is JobState.PENDING for part in known):
            return known
        for element in job.elements:
            files.remove(_end_file(work.folder, element))


def _over(work: Work, job: Job) -> bool:
    return len(_ends(work.folder, job)) == len(job.elements)


def _ends(folder: Path, job: Job) -> dict[int, JobEnd]:
    """Return how the allocations ended of which the job itself has told."""
    found = {}
    for element in job.elements:
        path = _end_file(folder, element)
        if path.exists():
            end = noun.from_json(
                JobEnd, files.read_bounded(path, limits.LOCK), file=os.fspath(path)
            )
            if end.id == job.id:
                found[element] = end
    return found


def _progress(work: Work, job: Job) -> Callable[[tuple[JobStatus, ...]], None]:
    """Return what tells the monitor of news: the job's state, and how many launches are done."""
    total = len(work.plan)
    last: list[tuple[str, int]] = []
    marks: list[tuple[float, int]] = []

    def told(found: tuple[JobStatus, ...]) -> None:
        words = ", ".join(dict.fromkeys(_words(part) for part in found))
        done = work.done
        if last == [(words, done)]:
            return
        more = bool(last) and done > last[0][1]
        # What was there before, and the wait for nodes, say nothing of the pace.
        marks.extend([(time.monotonic(), done)] if more else [])
        left = None
        if len(marks) > 1:
            (begun, before), (now, _) = marks[0], marks[-1]
            left = (now - begun) / (done - before) * (total - done)
        event = Event(
            what="progress", name=f"job {job.id}", text=words, done=done, total=total, left_s=left
        )
        work.monitor(event)
        if more:
            work.monitor(replace(event, what="piece"))
        last[:] = [(words, done)]

    return told


def _words(status: JobStatus) -> str:
    why = f" ({status.reason})" if status.state is JobState.PENDING and status.reason else ""
    again = f", put back into the queue {status.restarts} times" if status.restarts else ""
    return f"{status.said.lower()}{why}{again}"


def _raise_problems(work: Work, job: Job, known: tuple[JobStatus, ...]) -> None:
    """Raise what the job says went wrong, or what became of it, if launches are missing."""
    ends = _ends(work.folder, job)
    told = [problem for end in ends.values() for problem in end.problems]
    if not work.missing and not told:
        return
    decisive = [part.state for part in known if part.state in _DECISIVE]
    if told and not decisive:
        more = f"continue with `{work.resume}`"
        raise StackproofError(
            *(replace(one, hint=f"{one.hint}; {more}" if one.hint else more) for one in told)
        )
    state = (decisive or [part.state for part in known] or [JobState.GONE])[0]
    reason, what = _ENDED.get(state, (Reason.JOB_FAILED, "ended"))
    raise fail(
        reason,
        f"the job `{job.id}` {what}; {work.done} launches have results, {len(work.missing)} that "
        "are due have none",
        detail=_tail(work.folder, job),
        hint=f"continue with `{work.resume}`",
    )


def _tail(folder: Path, job: Job) -> str | None:
    lines: list[str] = []
    for path in sorted((folder / "logs").glob(f"job-{job.id}*.log")):
        lines += path.read_text(errors="replace", encoding="utf-8").rstrip().splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or None


def _load_job(folder: Path) -> Job | None:
    path = folder / "job" / "job.json"
    return documents.load_noun(Job, path)


def _end_file(folder: Path, element: int) -> Path:
    return folder / "job" / f"end-{element}.json"


def _write_end(folder: Path, element: int, end: JobEnd) -> None:
    files.write(_end_file(folder, element), noun.to_json(end))
