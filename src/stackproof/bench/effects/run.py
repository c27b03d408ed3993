"""Run a bench: every launch of the schedule, each result on disk before the next one starts.

A results folder can be continued: launches whose file is there are not repeated. It holds

    bench.json      what was compared, on what (`comparison.ResultsSpec`)
    spec.json       the specification and the images' digests: only the same ones may continue
    launches/       one measurement per launch, also of those that failed
    probes/         what each arm said of its path at each placement, before anything was timed
    logs/           the output of launches that failed
    digests-N.sha256  digests of these files, by allocation (`stackproof.results.digests`)
    set-aside/      launches of a block that was cut, and repeated whole
    job/            the batch job, if there is one (`stackproof.bench.effects.batch_job`)
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct, field

import stackproof
from stackproof.bench import pace as paces
from stackproof.bench import path_verdict
from stackproof.bench import schedule as schedules
from stackproof.bench.effects import arms as bench_arms
from stackproof.bench.effects import deciding, launching, nodes, path_probe, planning
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.effects.planning import free_name, set_aside
from stackproof.bench.pace import (
    Pace,
    Patience,
    SpentPatienceError,
    pace_of,
    probes_s,
    seconds_of,
    shape_text,
)
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.cluster.effects import up
from stackproof.cluster.model import parse_rate
from stackproof.compare import launch_checks
from stackproof.core import noun
from stackproof.core.command import Completed
from stackproof.core.effects import files, quiet
from stackproof.core.effects.run import transcript
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace
from stackproof.results.case import Case, Placement
from stackproof.results.effects import record as records
from stackproof.results.effects.record import Record
from stackproof.results.measurement import Measurement
from stackproof.results.model import LAUNCHES, SET_ASIDE, SPECIFICATION, ResultsSpec
from stackproof.results.path import MessagePaths

_TRIES = 2
"""How often a launch of block 0 that failed, or a block with one, is made."""

_REPEATED = 0.25
"""Part of the blocks that are made again at most; the failures of others are recorded."""


class Bench(Value):
    """A specification made ready: arms, where they run, placements by name.

    `paths` is what the probes found, by arm and placement. Launches take `slowdown` times longer
    than on a quiet machine, as far as that is known before the first.
    """

    spec: BenchSpec
    arms: Arms
    place: LaunchNodes
    placements: Mapping[str, Placement]
    paths: Mapping[tuple[str, str], MessagePaths] = field(default_factory=dict)
    slowdown: float = 1.0

    def launches(self) -> tuple[Launch, ...]:
        """Return the schedule."""
        return planning.schedule(self.spec, self.arms)


def prepare(spec: BenchSpec, arms: Arms | None = None, place: LaunchNodes | None = None) -> Bench:
    """Read the images, find the nodes, and refuse at once what cannot work.

    Raises `StackproofError` with the problems of all arms and of the nodes at once; for a `place`
    that is given nobody asks whether this machine mounts images.
    """
    here = place is None
    try:
        arms = arms or bench_arms.make_ready(spec)
    except StackproofError as error:
        more = nodes.problems(spec) if here else ()
        raise StackproofError(*error.problems, *more) from None
    place = place or nodes.here(spec)
    placements = schedules.placements_for(
        spec,
        place.nodes,
        place.interface,
        topologies=place.topologies,
        one_machine=place.one_machine,
    )
    if here and (unmounted := nodes.find_mount_problems(arms, place)):
        raise StackproofError(*unmounted)
    arms = planning.with_work(spec, arms)
    problems = launching.launcher_problems(arms, place)
    problems += launching.transport_problems(arms, place, placements, spec.memory)
    problems += launching.memory_problems(arms, spec.memory) if not problems else []
    if problems:
        raise StackproofError(*problems)
    return Bench(
        spec=spec,
        arms=arms,
        place=place,
        placements={placement.name: placement for placement in placements},
    )


def run_bench(
    bench: Bench,
    folder: Path,
    monitor: Monitor,
    *,
    command: tuple[str, ...] = (),
    give_up: bool = True,
) -> ResultsSpec:
    """Run every launch that is not done yet; return what `bench.json` says.

    With `give_up` it ends early where others disturb nearly every launch (`bench.pace`), but in
    no batch job. Inside a Slurm job these are the launches of its own allocation. Raises
    `StackproofError`, before anything is timed, for every arm whose probe cannot be run or took
    another path than was asked for; and when an arm's first launch fails (nothing after it would
    mean anything). Later failures are recorded with the launch and shown in the report.
    """
    planning.claim(bench.spec, bench.arms, folder)
    allocation = bench.place.allocation
    _tell_load(bench, monitor)
    if bench.place.state:
        up.share(bench.place.state, program_paths() + bench.arms.paths)
    plan = bench.launches()
    own = [one for one in plan if allocation is None or one.allocation == allocation.element]
    results = planning.results_spec(bench.spec, bench.arms, bench.place, bench.placements, command)
    deciding.keep_budget(folder, bench.spec.budget_s)
    began = time.monotonic()
    made, run, room = 0, None, max(1, int(_REPEATED * bench.spec.launches))
    for wanted in deciding.blocks(experiment(bench.spec, bench.arms, folder, own), monitor):
        set_aside(bench.placements, wanted, folder)
        missing = [one for one in wanted if not (folder / LAUNCHES / one.file_name).exists()]
        made += len(wanted)
        if run is None and (missing or not bench.spec.until_decided):
            record = _begin(bench, results, folder, missing=bool(missing))
            pace = pace_in(bench, own, folder)
            if missing:
                left_s = pace.left_within(bench.spec.budget_s) + probes_s(missing) * bench.slowdown
                monitor(_shape(bench, own, left_s))
            probed = own if bench.spec.until_decided else missing
            paths = _probe(bench, list(probed), folder, monitor)
            run = Run(
                bench=replace(bench, paths=paths),
                record=record,
                monitor=monitor,
                total=len(plan),
                pace=pace,
                patience=paces.of_bench(bench.spec, began) if give_up else None,
            )
        if run is not None:
            dropped = (x for x in own if x.block <= wanted[0].block and x not in wanted)
            run.pace = run.pace.without(dropped) if bench.spec.until_decided else run.pace
            try:
                for _, group in groupby(missing, key=_group):
                    room -= _run_block(run, tuple(group), again=room > 0)
            except SpentPatienceError:
                _give_up(run, own)
                return results
    monitor(Event(what="done", name="bench", text=f"{made} launches in {folder}"))
    return results


def _tell_load(bench: Bench, monitor: Monitor) -> None:
    """Tell in a job whether this one of its nodes is busy; elsewhere that has been said."""
    if bench.place.allocation and (load := quiet.look()).is_busy:
        monitor(Event(what="note", name="load", text=f"of this node alone: {load.text}"))


def _give_up(run: Run, plan: Sequence[Launch]) -> None:
    """Say why it ends here, leave what can be compared, and say what helps."""
    spent, run.patience, run.is_ending = run.patience, None, True
    if spent is None:
        return
    done = {path.name for path in (run.folder / LAUNCHES).glob("*.json")}
    missing = [x for x in plan if x.block == 1 and x.file_name not in done]
    groups = [list(group) for _, group in groupby(missing, key=_group)]
    text = paces.describe_disturbance(spent, sum(map(len, groups[:1])))
    run.monitor(Event(what="note", name="bench", text=text))
    began, made = run.clock(), len(done)
    for group in groups:
        if run.clock() - began > paces.CLOSING_S:
            break
        for launch in group:
            _run_launch(run, launch, last=True)
        made += len(group)
    there = f"{made} of {run.total} launches in {run.folder}"
    text = paces.describe_remedy(run.clock() - spent.began, there, quiet.look().text)
    run.monitor(Event(what="failed", name="bench", text=text))


def _shape(bench: Bench, launches: Sequence[Launch], left_s: float) -> Event:
    """Return the event that is told before launches are made."""
    of, null = _left_of(bench.spec), bench.arms.null
    text = shape_text(launches)
    text += f"; {null} is the baseline once more, to show the noise" if null else ""
    return Event(what="note", name="bench", text=text, left_s=left_s, left_of=of)


def _left_of(spec: BenchSpec) -> str:
    """Return the words after a time left; launches may end as soon as enough is decided."""
    return "at most" if spec.until_decided else ""


def _group(launch: Launch) -> tuple[int, str, str]:
    return (launch.block, launch.placement, launch.program)


def experiment(
    spec: BenchSpec, arms: Arms, folder: Path, plan: Sequence[Launch]
) -> deciding.Experiment:
    """Return what tells which of the launches are to be made."""
    null = arms.null if spec.challengers else None
    return deciding.Experiment(
        spec=spec, plan=plan, baseline=arms.baseline, folder=folder, null=null
    )


def _begin(bench: Bench, results: ResultsSpec, folder: Path, *, missing: bool) -> Record:
    """Write down what is measured, and return where launches are written down."""
    allocation = bench.place.allocation
    record = records.begin(folder, allocation.element if allocation else 0)
    if not (folder / SPECIFICATION).exists() or (allocation is None and missing):
        record.write(SPECIFICATION, noun.to_json(results))
    return record


def pace_in(bench: Bench, launches: Sequence[Launch], folder: Path) -> Pace:
    """Return how long launches take, those with a result in the folder as they were.

    A result that cannot be read is none of those, and its launch is not made again.
    """
    taken: dict[int, float] = {}
    unread: set[int] = set()
    for launch in launches:
        path = folder / LAUNCHES / launch.file_name
        if path.exists():
            try:
                taken[launch.order] = records.load_launch(path).seconds
            except StackproofError:
                unread.add(launch.order)
    counted = [one for one in launches if one.order not in unread]
    return pace_of(counted, lambda one: _seconds_for(bench, one), taken)


def _seconds_for(bench: Bench, launch: Launch) -> float:
    own = bench.arms.by_name[launch.arm].arm.rate
    rate = parse_rate(own) / 1e6 if own else bench.place.rate_mb_s
    return seconds_of(_case(bench, launch), rate) * bench.slowdown


def _probe(
    bench: Bench, launches: list[Launch], folder: Path, monitor: Monitor
) -> dict[tuple[str, str], MessagePaths]:
    """Return what each arm says of its path at each placement that is to be timed."""
    allocation = bench.place.allocation
    at = path_probe.Probing(
        spec=bench.spec,
        arms=bench.arms,
        place=bench.place,
        folder=folder,
        monitor=monitor,
        allocation=allocation.element if allocation else 0,
    )
    timed = [one for one in launches if bench.placements[one.placement].timed]
    return path_probe.probe_all(at, timed, bench.placements)


def program_paths() -> tuple[str, ...]:
    """Return what nodes must see to run this program: this Python and this package."""
    package = os.path.dirname(os.path.abspath(stackproof.__file__))
    return (sys.prefix, sys.base_prefix, package)


class Run(Struct, kw_only=True):
    """What is being run: `total` launches are planned; `pace` changes with each that is made."""

    bench: Bench
    record: Record
    monitor: Monitor
    total: int
    pace: Pace
    patience: Patience | None = None
    is_ending: bool = False
    clock: Callable[[], float] = time.monotonic

    @property
    def folder(self) -> Path:
        """Return the results folder."""
        return self.record.folder

    def keep(self, launch: Launch, measurement: Measurement) -> None:
        """Write down a launch."""
        self.record.keep(launch.file_name, measurement)
        self.patience = self.patience and self.patience.after(measurement)

    def keep_try(self, launch: Launch, measurement: Measurement) -> None:
        """Write down a launch that failed and is made again; it replaces no other try."""
        stem, number = Path(launch.file_name).stem, 1
        while (self.folder / LAUNCHES / f"{stem}-failed{number}.json").exists():
            number += 1
        self.record.keep(f"{stem}-failed{number}.json", measurement)


def _run_block(run: Run, launches: Sequence[Launch], *, again: bool) -> bool:
    """Make the launches of a block at a placement; return whether they were made twice.

    Where one fails, all are made again: what is compared belongs to one time, and a block must not
    keep the arms that were lucky in it. Wrong bytes are no failure of that kind: they are an
    answer.
    """
    failed = [_run_launch(run, one, last=not again) for one in launches]
    if launches[0].block == 0 or not again or not any(failed):
        return False
    for launch in launches:
        path = run.folder / LAUNCHES / launch.file_name
        if path.exists():
            path.rename(free_name(run.folder / SET_ASIDE, path.name))
    names = ", ".join(one.arm for one, bad in zip(launches, failed, strict=True) if bad)
    where = f"block {launches[0].block} at {launches[0].placement}"
    text = f"{where} is made again, since {names} failed"
    run.monitor(Event(what="note", name="again", text=text))
    for launch in launches:
        _run_launch(run, launch, last=True)
    return True


def _run_launch(run: Run, launch: Launch, *, last: bool) -> bool:
    """Make one launch and keep what came of it; return whether it must be made again.

    In block 0 that is done here, and what fails twice ends the bench, as do wrong bytes of the
    baseline: nothing after it would mean anything.
    """
    bench, arms = run.bench, run.bench.arms
    first = launch.block == 0
    for attempt in range(_TRIES if first else 1):
        measurement, done, told = _made(run, launch)
        problem = launch_checks.first_failure(measurement.checks, done.stderr)
        if problem is None:
            run.keep(launch, measurement)
            run.monitor(told)  # not before it is kept: an interrupt comes at any time
            return False
        problem = _logged(run, launch, problem, done)
        wrong = problem.reason is Reason.VALIDATION_FAILED
        launching.check_nodes(bench.place, measurement.case)
        if first and problem.reason is Reason.CLOCK_JUMPED:  # its times are compared with nothing
            run.keep(launch, measurement)
            run.monitor(Event(what="note", name="clock", text=problem.message))
            return False
        over = wrong or (attempt + 1 == _TRIES if first else last)
        if not over:
            run.monitor(Event(what="note", name="again", text=problem.message))
            run.keep_try(launch, measurement)
            continue
        if first and not (wrong and launch.arm not in {arms.baseline, arms.null}):
            if wrong:
                run.keep(launch, measurement)
            raise StackproofError(problem)
        run.monitor(Event(what="failed", name="launch", text=problem.message))
        run.keep(launch, measurement)
        return False
    return True


def _made(run: Run, launch: Launch) -> tuple[Measurement, Completed, Event]:
    """Make one launch and tell of it before; return what is to be told when it is kept, too.

    Raises `SpentPatienceError` where it makes no sense to go on.
    """
    if run.patience and run.patience.is_spent(run.clock(), lambda: quiet.look().is_busy):
        raise SpentPatienceError
    event = Event(
        what="progress",
        name=f"block {launch.block}/{run.bench.spec.launches}",
        text=f"{launch.arm}, {launch.placement}, {launch.program}",
        done=launch.order + 1,
        total=run.total,
        left_s=_left_s(run),
        left_of=_left_of(run.bench.spec),
    )
    run.monitor(event)
    started = time.monotonic()
    measurement, done = _measure(run.bench, launch)
    seconds = time.monotonic() - started
    run.pace = run.pace.with_taken(launch, seconds)
    told = replace(event, what="piece", seconds=seconds, left_s=_left_s(run))
    return measurement, done, told


def _left_s(run: Run) -> float | None:
    """Return about how long the rest takes, None where others disturb the launches."""
    busy = run.patience is not None and 2 * run.patience.hurt > run.patience.told
    return None if busy or run.is_ending else run.pace.left_within(run.bench.spec.budget_s)


def _logged(run: Run, launch: Launch, problem: Problem, done: Completed) -> Problem:
    """Return the problem of a launch with where its output is kept."""
    number = 1
    while (log := run.folder / "logs" / f"{Path(launch.file_name).stem}-{number}.log").exists():
        number += 1
    files.write(log, transcript(done))
    return replace(
        problem,
        message=f"{launch.arm}, {launch.placement}: {problem.message}",
        hint=f"{problem.hint + '; ' if problem.hint else ''}the output is in `{log}`",
    )


def _measure(bench: Bench, launch: Launch) -> tuple[Measurement, Completed]:
    ready = bench.arms.by_name[launch.arm]
    case = replace(_case(bench, launch), fabric=launching.fabric_of(bench.place))
    measurement, done = launching.measure(bench.place, ready, launch, case)
    bench_arms.check_unchanged(ready)
    measurement = replace(measurement, host_facts={**planning.machine(), **measurement.host_facts})
    path = bench.paths.get((launch.arm, launch.placement))
    if path is not None:
        found = (*measurement.checks, path_verdict.check_of(path))
        measurement = replace(measurement, checks=found)
    return measurement, done


def _case(bench: Bench, launch: Launch) -> Case:
    placement = bench.placements[launch.placement]
    transports = bench.arms.by_name[launch.arm].arm.transports
    return schedules.case_for(
        bench.spec, launch, placement, schedules.transport_for(placement, transports)
    )
