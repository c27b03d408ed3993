"""Run a bench: every launch of the schedule, each result on disk before the next one starts.

A results folder can be continued: launches whose file is there are not repeated. It holds

    bench.json      what was compared, on what (`comparison.ResultsSpec`)
    spec.json       the specification and the images' digests: only the same ones may continue
    launches/       one measurement per launch, also of those that failed
    probes/         what each arm said of its path at each placement, before anything was timed
    logs/           the output of launches that failed
    set-aside/      launches of a block that was cut and repeated on other nodes
    job/            the batch job, if there is one (`stackproof.host.bench_job`)
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import stackproof
from stackproof import checks, jobs, noun, pathcheck
from stackproof.bench import BenchSpec
from stackproof.case import Placement
from stackproof.command import Completed
from stackproof.comparison import Arm as ResultArm
from stackproof.comparison import ResultsSpec
from stackproof.errors import Location, Reason, StackproofError, fail
from stackproof.host import arms as ready_arms
from stackproof.host import cluster as clusters
from stackproof.host import files, launching, probing
from stackproof.host import place as places
from stackproof.host.arms import Arms, ReadyArm
from stackproof.host.place import Place
from stackproof.host.results import LAUNCHES, SPECIFICATION
from stackproof.host.run import transcript
from stackproof.jobs import Launch
from stackproof.measurement import Measurement
from stackproof.messagepath import MessagePaths
from stackproof.monitor import Event, Monitor

ASKED = "spec.json"
"""What a results folder was begun for."""

_TRIES = 2
"""How often a launch that failed is made: once more, then it is recorded as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A specification made ready: arms, where they run, placements by name.

    `paths` is what the probes found, by arm and placement.
    """

    spec: BenchSpec
    arms: Arms
    place: Place
    placements: Mapping[str, Placement]
    paths: Mapping[tuple[str, str], MessagePaths] = field(default_factory=dict)

    def launches(self) -> tuple[Launch, ...]:
        """Return the schedule."""
        return schedule(self.spec, self.arms)


def schedule(spec: BenchSpec, arms: Arms) -> tuple[Launch, ...]:
    """Return every launch of a specification in order."""
    where = {name: ready.arm.placements for name, ready in arms.by_name.items()}
    return jobs.schedule(spec, arms.programs, where)


def prepare(spec: BenchSpec, arms: Arms | None = None, place: Place | None = None) -> Bench:
    """Read the images, find the nodes, and refuse at once what cannot work.

    Raises `StackproofError` with the problems of all arms at once.
    """
    place = place or places.here(spec)
    placements = jobs.placements_for(
        spec, place.nodes, place.interface, one_machine=place.one_machine
    )
    arms = arms or ready_arms.make_ready(spec)
    problems = launching.pmi_problems(arms, place.allocation) if place.allocation else []
    problems += launching.transport_problems(arms, place, placements)
    if problems:
        raise StackproofError(*problems)
    return Bench(
        spec=spec,
        arms=arms,
        place=place,
        placements={placement.name: placement for placement in placements},
    )


def run_bench(
    bench: Bench, folder: Path, monitor: Monitor, *, command: tuple[str, ...] = ()
) -> ResultsSpec:
    """Run every launch that is not done yet; return what `bench.json` says.

    Inside a Slurm job these are the launches of its own allocation. Raises `StackproofError`,
    before anything is timed, for every arm whose probe cannot be run or took another path than was
    asked for; and when an arm's first launch fails (nothing after it would mean anything). Later
    failures are recorded with the launch and shown in the report.
    """
    claim(bench.spec, bench.arms, folder)
    results = _results_spec(bench, command)
    target, allocation = folder / SPECIFICATION, bench.place.allocation
    if allocation is None or not target.exists():
        files.write(target, noun.to_json(results))
    if bench.place.state:
        clusters.share(bench.place.state, program_paths() + bench.arms.paths)
    plan = bench.launches()
    own = [one for one in plan if allocation is None or one.allocation == allocation.element]
    _set_aside(bench, own, folder)
    missing = [one for one in own if not (folder / LAUNCHES / one.file_name).exists()]
    paths = _probe(bench, missing, folder, monitor)
    for launch in missing:
        monitor(
            Event(
                what="progress",
                name=f"block {launch.block}/{bench.spec.launches}",
                text=f"{launch.arm}, {launch.placement}, {launch.program}",
                done=launch.order + 1,
                total=len(plan),
            )
        )
        _run_launch(replace(bench, paths=paths), launch, folder, monitor)
    monitor(Event(what="done", name="bench", text=f"{len(own)} launches in {folder}"))
    return results


def _probe(
    bench: Bench, launches: list[Launch], folder: Path, monitor: Monitor
) -> dict[tuple[str, str], MessagePaths]:
    """Return what each arm says of its path at each placement that is to be timed."""
    allocation = bench.place.allocation
    at = probing.Probing(
        spec=bench.spec,
        arms=bench.arms,
        place=bench.place,
        folder=folder,
        monitor=monitor,
        allocation=allocation.element if allocation else 0,
    )
    timed = [one for one in launches if bench.placements[one.placement].timed]
    return probing.probe_all(at, timed, bench.placements)


def program_paths() -> tuple[str, ...]:
    """Return what nodes must see to run this program: this Python and this package."""
    package = os.path.dirname(os.path.abspath(stackproof.__file__))
    return (sys.prefix, sys.base_prefix, package)


def _set_aside(bench: Bench, launches: list[Launch], folder: Path) -> None:
    """Move the launches of a block that was cut on other nodes out of the results.

    Arms of one block are compared with each other, so all of them must have run on the same
    nodes. Whole blocks stay as they are.
    """
    groups: dict[tuple[int, str, str], list[Path]] = {}
    for launch in launches:
        key = (launch.block, launch.placement, launch.program)
        groups.setdefault(key, []).append(folder / LAUNCHES / launch.file_name)
    for (_, name, _), paths in groups.items():
        done = [path for path in paths if path.exists()]
        if not done or len(done) == len(paths):
            continue
        here = bench.placements[name].nodes
        where = [
            noun.from_json(Measurement, path.read_bytes(), file=str(path)).case.placement.nodes
            for path in done
        ]
        if any(nodes != here for nodes in where):
            (folder / "set-aside").mkdir(exist_ok=True)
            for path in done:
                path.rename(folder / "set-aside" / path.name)


def identity(spec: BenchSpec, arms: Arms) -> str:
    """Return the text by which a results folder knows its specification and its images.

    How a scheduler was asked for nodes is no part of it: more time may be asked for to continue.
    """
    return noun.to_json(
        {
            "spec": noun.to_data(replace(spec, scheduler_options={})),
            "images": {name: ready.image.sha256 for name, ready in arms.by_name.items()},
        }
    )


def claim(spec: BenchSpec, arms: Arms, folder: Path) -> None:
    """Take a results folder, or make sure that it belongs to the same specification."""
    marker, text = folder / ASKED, identity(spec, arms)
    try:
        before = marker.read_text() if marker.exists() else None
    except OSError as error:
        raise files.translate(error, marker) from error
    if before is not None:
        if before != text:
            raise fail(
                Reason.USAGE,
                f"`{folder}` holds results of another specification or of other images",
                hint="choose another folder with -o, or remove it",
            )
        return
    files.check_empty(folder)
    files.write(marker, text)


def load_spec(folder: Path) -> BenchSpec:
    """Return the specification that a results folder was made for.

    Raises `StackproofError` (FILE_MISSING and what a broken file raises).
    """
    marker = folder / ASKED
    try:
        text = marker.read_bytes()
    except OSError as error:
        raise fail(
            Reason.FILE_MISSING,
            f"`{folder}` is not a results folder that can be continued: no `{ASKED}`",
            where=Location(file=os.fspath(marker)),
            hint="give the folder that `stackproof bench` was writing",
        ) from error
    whole = noun.from_json(dict[str, Any], text, file=os.fspath(marker))
    return noun.from_data(BenchSpec, whole.get("spec"), file=os.fspath(marker))


def _results_spec(bench: Bench, command: tuple[str, ...]) -> ResultsSpec:
    spec, arms, rate = bench.spec, bench.arms, bench.place.rate_mb_s
    limits: dict[str, dict[str, object]] = {}
    for name, placement in bench.placements.items():
        if rate is not None and len(placement.nodes) > 1:
            limits[name] = {"MB/s": rate, "source": "the rate that the cluster's links were given"}
    return ResultsSpec(
        name=spec.name,
        baseline=arms.baseline,
        challengers=arms.challengers,
        null=arms.null,
        margins=dict(spec.margins),
        launches=spec.launches,
        seed=spec.seed,
        created=launching.now(),
        arms={name: _result_arm(ready) for name, ready in arms.by_name.items()},
        host=_host_facts(bench.place),
        limits=limits,
        command=command,
        stackproof=stackproof.__version__,
        versions={"python": platform.python_version()},
    )


def _result_arm(ready: ReadyArm) -> ResultArm:
    facts = ready.deployment.mpi
    return ResultArm(
        image=ready.image.path,
        image_sha256=ready.image.sha256,
        lock_digest=ready.image.lock_digest,
        mpi={"family": facts.family, "version": facts.version},
        recipe=ready_arms.recipe_text(ready.image),
        lock=ready_arms.read_text(ready.image, "meta/lock.json"),
        view=ready.arm.view or ready.image.default_view,
        transport=", ".join(f"{k}: {v}" for k, v in ready.arm.transports.items()) or None,
        env=dict(ready.arm.env),
        rate=ready.arm.rate,
    )


def _host_facts(place: Place) -> dict[str, str]:
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    uname = os.uname()
    return {
        "cpu": model,
        "cpus": str(len(os.sched_getaffinity(0))),
        "kernel": f"{uname.sysname} {uname.release}",
        "machine": uname.machine,
        "load at start": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        **place.facts,
    }


def _run_launch(bench: Bench, launch: Launch, folder: Path, monitor: Monitor) -> None:
    """Make one launch, again if it fails, and keep what came of it."""
    for attempt in range(_TRIES):
        measurement, done = _measure(bench, launch)
        problem = checks.first_failure(measurement.checks, done.stderr)
        if problem is None:
            files.write(folder / LAUNCHES / launch.file_name, noun.to_json(measurement))
            return
        log = folder / "logs" / f"{Path(launch.file_name).stem}-{attempt + 1}.log"
        files.write(log, transcript(done))
        launching.check_nodes(bench.place, measurement.case)
        problem = replace(
            problem,
            message=f"{launch.arm}, {launch.placement}: {problem.message}",
            hint=f"{problem.hint + '; ' if problem.hint else ''}the output is in `{log}`",
        )
        if attempt + 1 < _TRIES:
            monitor(Event(what="note", name="again", text=problem.message))
            name = f"{Path(launch.file_name).stem}-failed{attempt + 1}.json"
            files.write(folder / LAUNCHES / name, noun.to_json(measurement))
        elif launch.block == 0:
            raise StackproofError(problem)
        else:
            monitor(Event(what="failed", name="launch", text=problem.message))
            files.write(folder / LAUNCHES / launch.file_name, noun.to_json(measurement))


def _measure(bench: Bench, launch: Launch) -> tuple[Measurement, Completed]:
    ready = bench.arms.by_name[launch.arm]
    placement = bench.placements[launch.placement]
    transport = jobs.transport_for(placement, ready.arm.transports)
    case = jobs.case_for(bench.spec, launch, placement, transport)
    case = replace(case, fabric=launching.fabric_of(bench.place))
    measurement, done = launching.measure(bench.place, ready, launch, case)
    path = bench.paths.get((launch.arm, launch.placement))
    if path is not None:
        found = (*measurement.checks, pathcheck.check_of(path))
        measurement = replace(measurement, checks=found)
    return measurement, done
