"""A bench as a batch job of Slurm: its script, its submission, and the job's own part of it.

Beside what `stackproof.bench.effects.run` describes the results folder holds

    job/job.json    the job that was submitted last (`launch.slurm.Job`)
    job/script.sh   its script
    logs/job-*.log  what the job printed

A job that is cut short, requeued or loses a node leaves its results there: the next one makes the
launches that have no result yet.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import stackproof
from stackproof.bench import schedule
from stackproof.bench.effects import arms as bench_arms
from stackproof.bench.effects import deciding, nodes, planning, run
from stackproof.bench.effects.arms import Arms
from stackproof.bench.spec import BenchSpec
from stackproof.cluster.effects import up
from stackproof.core import noun
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace
from stackproof.launch import slurm
from stackproof.launch.effects import allocation as allocations
from stackproof.launch.effects import scheduler
from stackproof.launch.effects.scheduler import Door
from stackproof.launch.slurm import Job, JobRequest
from stackproof.results.case import Placement


def load(folder: Path) -> BenchSpec:
    """Return the specification of a results folder, with the options of its last job."""
    spec, job = planning.load_spec(folder), scheduler.load_job(folder)
    return replace(spec, scheduler_options=job.options) if job else spec


def dry_run(spec: BenchSpec, folder: Path) -> str:
    """Return the script that would be submitted; nothing is written, nobody is asked.

    Raises `StackproofError` for images, placements and options that cannot be.
    """
    _refuse_rates(spec)
    bench_arms.make_ready(spec)
    elements = tuple(range(spec.allocations)) if spec.allocations > 1 else ()
    return slurm.render_script(_request(spec, folder.absolute(), elements))


def submit(spec: BenchSpec, folder: Path, monitor: Monitor, *, command: tuple[str, ...]) -> bool:
    """Submit a job that makes all launches that have no result yet; return false for none.

    Raises `StackproofError`: JOB_FAILED while the last job of the folder has not ended, or where
    an error ended it before its first launch, NOTHING_RAN when no arm would run anything, and what
    `scheduler.door` and `scheduler.submit` raise.
    """
    _refuse_rates(spec)
    arms = planning.with_work(spec, bench_arms.make_ready(spec))
    folder = folder.absolute()
    at = scheduler.door(spec.cluster)
    planning.claim(spec, arms, folder)
    deciding.keep_budget(folder, spec.budget_s)
    plan = planning.schedule(spec, arms)
    missing = deciding.missing(run.experiment(spec, arms, folder, plan))
    if not missing:
        planning.require_launches(plan, folder)
        return False
    _refuse_second_job(folder, at, spec)
    elements = tuple(sorted({launch.allocation for launch in missing}))
    request = _request(spec, folder, elements if spec.allocations > 1 else ())
    script = folder / "job" / "script.sh"
    files.write(script, slurm.render_script(request), mode=0o755)
    (folder / "logs").mkdir(exist_ok=True)
    _share(at, arms, folder)
    job = Job(
        id=scheduler.submit(at, request, os.fspath(script)),
        cluster=at.cluster,
        options=spec.scheduler_options,
        command=command,
        interface=at.state.nodes[0].interface if at.state else None,
        rate_mb_s=at.state.rate_mb_s if at.state else None,
        facts=nodes.cluster_facts(at.state) if at.state else {},
    )
    files.write(folder / "job" / "job.json", noun.to_json(job))
    text = (
        f"{job.id} is submitted, and prints to `{folder}/logs`; when it has ended, `stackproof "
        f"bench --resume {folder}` says the verdicts, or submits the launches that are missing"
    )
    monitor(Event(what="note", name="job", text=text))
    return True


def work_in_job(folder: Path, monitor: Monitor) -> None:
    """Do the job's part: make the launches of this allocation that have no result yet."""
    job = scheduler.load_job(folder)
    if job is None:
        raise fail(Reason.FILE_MISSING, f"`{folder}` has no job", hint="leave `--in-job` out")
    spec = planning.load_spec(folder)
    place = nodes.of_job(spec, job, allocations.enter())
    run.run_bench(run.prepare(spec, place=place), folder, monitor, command=job.command)


def _refuse_second_job(folder: Path, at: Door, spec: BenchSpec) -> None:
    """Refuse a job beside one that still writes to the folder, or after one that would do alike."""
    job = scheduler.load_job(folder)
    if job is None or job.cluster != at.cluster:
        return
    if not scheduler.has_ended(at, job.id):
        raise fail(
            Reason.JOB_FAILED,
            f"the job `{job.id}` of `{folder}` has not ended",
            hint=f"wait for its end (`squeue --jobs={job.id}`), or end it: `scancel {job.id}`",
        )
    fault, log = scheduler.find_fault(folder, job)
    if fault and job.options == spec.scheduler_options:
        raise fail(
            Reason.JOB_FAILED,
            f"job {job.id} ended without a launch: {fault}",
            hint=f"`{log}` says more; when its cause is mended, delete that log, and the same "
            "command submits a job again; so does another `--sbatch-option`",
        )


def _share(at: Door, arms: Arms, folder: Path) -> None:
    """Have the nodes of a cluster of this machine see what the job uses."""
    if at.state:
        cache = os.fspath(cache_kinds.cache())
        up.share(at.state, (*run.program_paths(), *arms.paths, os.fspath(folder), cache))


def _refuse_rates(spec: BenchSpec) -> None:
    """Refuse what only the cluster's owner can do, and not a job on it."""
    arms = (spec.baseline, *spec.challengers)
    slowed = [arm for arm in arms if arm.rate]
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
