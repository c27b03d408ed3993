"""The speed of an injected MPI against the own one: a bench of both, judged as any other.

A program that is known here (`stackproof-bench`, `IMB-MPI1`, OSU's) is told what to measure unless
it is given arguments, by what `stackproof bench` tells it; the tables of IMB and OSU are read from
any program that prints them. What was measured is a results folder, and `compare` judges it.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import field

import stackproof
from stackproof.bench import import_outputs, pace, programs, schedule
from stackproof.bench.amounts import duration_given
from stackproof.bench.effects import launching
from stackproof.bench.effects.planning import free_name
from stackproof.bench.import_outputs import OutputFile
from stackproof.bench.import_places import ImportSetup
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.compare import launch_checks
from stackproof.compare.compare import compare
from stackproof.compare.disturbance import disturbed
from stackproof.compare.effects.results import load_results
from stackproof.compare.judge import FEWEST_BLOCKS
from stackproof.compare.model import Cell, Comparison, Curve, Verdict, Why
from stackproof.core import noun
from stackproof.core.command import Completed
from stackproof.core.effects import quiet
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.launch.effects import neighbours
from stackproof.prove.effects import arms as prove_arms
from stackproof.prove.effects.arms import ProofArm, ProofRun, Ready
from stackproof.prove.model import AGAIN, INJECTED, OWN, Speed
from stackproof.prove.options import ProveRequest
from stackproof.report.tables import reason_text, tail_text
from stackproof.results.effects import record as records
from stackproof.results.effects.record import Record
from stackproof.results.measurement import Disturbance, Measurement, RankFacts
from stackproof.results.model import (
    LAUNCHES,
    SET_ASIDE,
    SPECIFICATION,
    ComparedArm,
    ResultsSpec,
)

# ------------------- A comparison to what a proof says of speed: the judge's own numbers and words

_QUIET = "make the machine quiet, and prove it again"
_NO_NUMBER = "no number of launches that makes sense would decide it"


def speeds_of(comparison: Comparison) -> tuple[Speed, ...]:
    """Return the judgement of the injected MPI at every size.

    Where nothing is judged, as the null arm FAILs, each says why.
    """
    why = comparison.verdict_of(INJECTED).overruled
    return tuple(
        _speed(panel.curve, cell, why, comparison.spec.launches)
        for panel in comparison.panels
        if (judgement := panel.judgement(INJECTED)) is not None
        for cell in judgement.cells
    )


def notes_of(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader of these speeds is to be warned of."""
    yield from (note.text for note in comparison.notes if note.level == "warning")


def _speed(curve: Curve, cell: Cell, why: str, planned: int) -> Speed:
    is_open = cell.verdict is Verdict.INCONCLUSIVE
    if not is_open or cell.why is None:
        why = tail_text(cell) if cell.by_tail else ""
    elif cell.why is not Why.WITHHELD:
        why = reason_text(cell.why)
    return Speed(
        benchmark=curve.title,
        size=cell.size if curve.sized else None,
        verdict=cell.verdict.value,
        reads=cell.reads,
        margin=cell.margin,
        why=why,
        remedy=_remedy(cell, planned) if is_open else "",
        ratio=cell.ratio,
        low=cell.low,
        high=cell.high,
    )


def _remedy(cell: Cell, planned: int) -> str:
    """Return the remedy for an open cell; `planned` launches of each arm were asked for."""
    known = {
        Why.NOT_TRUSTED: "prove it again into another folder",
        Why.WITHHELD: "read the warnings, and prove it again",
        Why.DISTURBED: _QUIET,
        Why.NO_PAIRS: "look into `launches` of the folder",
    }
    if cell.why in known:
        return known[cell.why]
    needed = cell.launches_needed
    if needed is None:
        return f"{_NO_NUMBER}; {_QUIET}" if cell.why is Why.NOISE else _NO_NUMBER
    if needed <= planned:
        return f"{needed} are needed"
    return f"about {needed} launches of each arm would decide it: --launches {needed}"


_TRIES = 2
"""How often a block is made in which a launch of a program that is known fails."""

_ANSWERS = frozenset({Reason.VALIDATION_FAILED, Reason.JOB_TIMEOUT})
"""Failures that are no chance to be tried away: wrong bytes, and a launch that takes too long."""

_PATIENCE_S = 60.0
"""Seconds that what is to come may take where nothing that was made is undisturbed."""

_SHOWN_BLOCKS = 2
"""Timed blocks that are made on the busiest machine: a ratio of fewer has no interval."""

Block = Mapping[Launch, tuple[Measurement, ...]]
"""What the launches of a block measured; a program may print several tables."""


class Compared(Value):
    """What was judged; `notes` say why that is nothing, or what speaks against it.

    `wrong_bytes` has a sentence for each arm that received other bytes than were sent.
    """

    speed: tuple[Speed, ...] = ()
    wrong_bytes: Mapping[str, str] = field(default_factory=dict)
    launches: int = 0
    notes: tuple[str, ...] = ()


def announced(ready: Ready) -> Event:
    """Return the announcement of all runs, with the seconds they take on a quiet machine."""
    stage, spec = ready.stage, prove_arms.spec_of(ready.stage)
    plan = _plan(stage) if _is_timed(stage) else ()
    text = f"{len(ready.arms)} arms are run and watched"
    if plan:
        text += f"; then timed, if not --launches 0: {pace.shape_text(plan)}"
    left = None
    if spec is not None:
        rate = stage.state.rate_mb_s if stage.state else None
        each = pace.seconds_of(prove_arms.case_of(stage, spec, _plan(stage)[0]), rate)
        left = each * (len(plan) + len(ready.arms))
    elif plan:
        text += "; how long that takes is told when the program has run once"
    return Event(what="note", name="prove", text=text, left_s=left)


def wait_s(wanted: ProveRequest) -> float | None:
    """Return how long a busy machine is waited for; raises `StackproofError` (USAGE)."""
    text = wanted.wait_for_quiet
    return None if text is None else duration_given("--wait-for-quiet", text)


def look_around(stage: ProofRun, monitor: Monitor) -> Monitor:
    """Tell if this machine is busy before anything is timed, and wait if that was asked for.

    Returns the monitor for what follows. On a busy machine nobody knows how long that takes, so it
    tells no time.
    """
    if not _is_timed(stage):
        return monitor
    load = quiet.watch(
        lambda text: monitor(Event(what="note", name="load", text=text)),
        Verdict.INCONCLUSIVE.value,
        wait_s(stage.wanted),
    )
    return (lambda event: monitor(replace(event, left_s=None))) if load.is_busy else monitor


def measure(ready: Ready, first: Mapping[str, Completed], monitor: Monitor) -> Compared:
    """Return how the two arms that run compare; `first` are the outputs seen of them already.

    The results folder gets every launch. Launches come in blocks of both arms and the own one once
    more, in random order; the first block warms up and does not count.
    """
    stage = ready.stage
    if not _is_timed(stage):
        count = len(stage.placement.ranks)
        return Compared(
            notes=(f"{count} ranks have fewer cores, and what shares one is not timed",)
        )
    if prove_arms.spec_of(stage) is None and not _has_tables(stage, first[OWN]):
        return Compared(notes=("its output has no table of IMB or OSU",))
    spec = _results_spec(ready)
    record = records.begin(stage.folder)
    record.write(SPECIFICATION, noun.to_json(spec))
    wrong_bytes: dict[str, str] = {}
    notes = tuple(_made(ready, record, first[OWN].seconds, monitor, wrong_bytes))
    try:
        comparison = compare(load_results(stage.folder))
    except StackproofError as error:
        return Compared(wrong_bytes=wrong_bytes, notes=notes or (error.problems[0].message,))
    counts = [len(point.blocks) for panel in comparison.panels for one in panel.arms
              for point in one.points]  # fmt: skip
    return Compared(
        speed=speeds_of(comparison),
        wrong_bytes=wrong_bytes,
        launches=min(counts, default=0),
        notes=(*notes, *notes_of(comparison)),
    )


def _is_timed(stage: ProofRun) -> bool:
    return stage.placement.timed and stage.wanted.launches > 0


def _plan(stage: ProofRun) -> tuple[Launch, ...]:
    """Return all launches in order, as a bench of these arms would have them."""
    known = prove_arms.spec_of(stage)
    spec = known or BenchSpec(
        baseline=Arm(name=OWN), placements=(stage.placement,), launches=stage.wanted.launches
    )
    name = spec.programs[0].name
    plan = schedule.schedule(spec, dict.fromkeys((OWN, INJECTED, AGAIN), frozenset({name})))
    return tuple(replace(one, program=posixpath.basename(stage.program)) for one in plan)


def _made(
    ready: Ready, record: Record, seconds: float, monitor: Monitor, wrong_bytes: dict[str, str]
) -> Iterator[str]:
    """Make all launches and keep them; yield why not all were made.

    Adds to `wrong_bytes` the arm that received some; the own arm answers for its twin.
    """
    plan, count = _plan(ready.stage), ready.stage.wanted.launches
    left = pace.pace_of(plan, lambda _: seconds)
    monitor(Event(what="note", name="speed", text=pace.shape_text(plan), left_s=left.left_s))
    all_of_it: list[Measurement] = []
    tries = 1 if prove_arms.spec_of(ready.stage) is None else _TRIES
    for block, group in groupby(plan, lambda one: one.block):
        launches = tuple(group)
        for number in range(1, tries + 1):
            made: dict[Launch, tuple[Measurement, ...]] = {}
            fault = None
            for launch in launches:
                left_s = None if disturbed(all_of_it) else left.left_s
                monitor(_progress(launch, len(plan), count, left_s))
                made[launch], fault = _tried(ready, launch)
                if fault:
                    break
                left = left.with_taken(launch, made[launch][0].seconds)
            over = number == tries or (fault is not None and fault.reason in _ANSWERS)
            _keep(record, made, aside=fault is not None and not over)
            if fault is None or over:
                break
            monitor(Event(what="note", name="again", text=f"block {block}: {fault.message}"))
        if fault:
            if fault.reason == Reason.VALIDATION_FAILED:
                wrong_bytes[OWN if launch.arm == AGAIN else launch.arm] = fault.message
            yield f"ended in block {block} of {count}: {fault.message}"
            return
        all_of_it += [one for several in made.values() for one in several]
        if text := _hopeless(all_of_it, count, left.left_s):
            yield f"ended after {block} of {count} launches of each arm: {text}"
            return


def _tried(ready: Ready, launch: Launch) -> tuple[tuple[Measurement, ...], Problem | None]:
    """Return the measurements of a launch, and what is wrong with them."""
    try:
        made = _launched(ready, launch)
    except StackproofError as error:
        return (), _of_arm(launch.arm, error.problems[0])
    return made, _fault(made)


def _progress(launch: Launch, total: int, count: int, left_s: float | None) -> Event:
    return Event(
        what="progress",
        name="speed",
        text=f"{launch.arm}, {launch.block} of {count}",
        done=launch.order + 1,
        total=total,
        left_s=left_s,
    )


def _hopeless(made: Sequence[Measurement], count: int, left_s: float) -> str:
    """Return the reason to end, empty where launches to come may decide something.

    So few blocks without disturbance could be left that none is judged by them, or there is none
    yet and it would take long. There is always enough to show an estimate with its interval.
    """
    hurt = disturbed(made)
    blocks = {one.block for one in hurt}
    none_yet = blocks == {one.block for one in made}
    if max((one.block for one in made), default=0) < min(_SHOWN_BLOCKS, count):
        return ""
    if count - len(blocks - {0}) >= FEWEST_BLOCKS and not (none_yet and left_s > _PATIENCE_S):
        return ""
    return (
        f"something else was at the CPUs of its ranks ({hurt[0].arm}: {hurt[0].text}); make the "
        "machine quiet, and prove it again"
    )


def _fault(several: Sequence[Measurement]) -> Problem | None:
    """Return the fault of a launch's measurements, None when all can be used."""
    for one in several:
        if problem := launch_checks.first_failure(one.checks):
            return _of_arm(one.arm, problem)
    return None


def _of_arm(name: str, problem: Problem) -> Problem:
    more = f" ({problem.detail.splitlines()[0]})" if problem.detail else ""
    return replace(problem, message=f"{name}: {problem.message}{more}")


def _keep(record: Record, made: Block, *, aside: bool) -> None:
    """Write launches down; those of a block that is made again do not count."""
    for launch, several in made.items():
        for number, one in enumerate(several):
            stem = Path(launch.file_name).stem
            name = f"{stem}-{number}.json" if number else f"{stem}.json"
            record.keep(name, one)
            if aside:
                path = record.folder / LAUNCHES / name
                path.rename(free_name(record.folder / SET_ASIDE, name))


def _launched(ready: Ready, launch: Launch) -> tuple[Measurement, ...]:
    """Make a launch whose ranks nobody follows: what the loader reads is set for them alone.

    Raises `StackproofError` for what prints no table any more.
    """
    stage, arm = ready.stage, _arm_of(ready, launch.arm)
    spec = prove_arms.spec_of(stage)
    case = None if spec is None else prove_arms.case_of(stage, spec, launch, arm.transport)
    settings = [f"{name}={value}" for name, value in arm.rank_env.items()]
    words = (*(("env", *settings) if settings else ()), *prove_arms.words_of(stage, case))
    cpus = [rank.cpu for rank in stage.placement.ranks if rank.cpu is not None]
    started, told = launching.now(), neighbours.watch(cpus)
    done = prove_arms.launch(stage, arm, words)
    others = Disturbance() if stage.state else told()  # what a cluster's daemons start is not ours
    if case is None:
        made = _tables(stage, launch, done)
    else:
        facts = arm.provided.facts
        output = programs.REGISTRY[case.program].parse(done.stdout, case)
        checks = launch_checks.judge(
            output, case, mpi_family=facts.family if facts else "",
            mpi_version=facts.version if facts else "", completed=done,
            loader={"LD_PRELOAD": arm.rank_env.get("LD_PRELOAD", "")},
        )  # fmt: skip
        made = (
            Measurement(
                arm=launch.arm, block=launch.block, order=launch.order, case=case, output=output,
                checks=checks, argv=(), env={}, started="", seconds=0,
            ),
        )  # fmt: skip
    env = dict(sorted({**arm.env.apply({}), **arm.rank_env}.items()))
    return tuple(
        _seen_from_outside(
            replace(one, argv=done.argv, env=env, started=started, seconds=done.seconds), others
        )
        for one in made
    )


def _seen_from_outside(one: Measurement, others: Disturbance) -> Measurement:
    """Return a launch with what others took of its CPUs, where its ranks do not tell themselves."""
    if one.output.ranks or others.other_load is None:
        return one
    ranks = tuple(
        RankFacts(rank=number, host=rank.node, cpu=rank.cpu, disturbance=others)
        for number, rank in enumerate(one.case.placement.ranks)
    )
    return replace(one, output=replace(one.output, ranks=ranks))


def _arm_of(ready: Ready, name: str) -> ProofArm:
    return ready.arms[OWN if name == AGAIN else name]


def _has_tables(stage: ProofRun, done: Completed) -> bool:
    try:
        _import(stage, OWN, done)
    except StackproofError as error:
        return error.reason is not Reason.NO_RESULTS
    return True


def _tables(stage: ProofRun, launch: Launch, done: Completed) -> tuple[Measurement, ...]:
    """Return a program's tables as launches of its block; raises as reading tables does."""
    if done.timed_out or done.returncode:
        raise fail(Reason.JOB_FAILED, f"it exited with {done.returncode}, or not in its time")
    found = _import(stage, launch.arm, done)
    return tuple(replace(one, block=launch.block, order=launch.order) for one in found)


def _import(stage: ProofRun, name: str, done: Completed) -> tuple[Measurement, ...]:
    setup = ImportSetup(
        name="injection",
        locality=stage.placement.locality,
        memory=BufferPlace.HOST,
        ranks=len(stage.placement.ranks),
    )
    text = done.stdout.decode(errors="replace")
    file = OutputFile(arm=name, name="its output", text=text)
    return import_outputs.import_outputs([file], setup).results.measurements


def _results_spec(ready: Ready) -> ResultsSpec:
    wanted, spec = ready.stage.wanted, BenchSpec(baseline=Arm(name=OWN))
    return ResultsSpec(
        name=f"{posixpath.basename(ready.stage.program)} with {wanted.replacement}",
        baseline=OWN,
        challengers=(INJECTED,),
        null=AGAIN,
        margins=dict(spec.margins),
        launches=wanted.launches,
        seed=spec.seed,
        created=launching.now(),
        arms={name: _compared_arm(_arm_of(ready, name)) for name in (OWN, INJECTED, AGAIN)},
        command=tuple(sys.argv),
        stackproof=stackproof.__version__,
    )


def _compared_arm(arm: ProofArm) -> ComparedArm:
    facts, part = arm.provided.facts, arm.provided.part
    return ComparedArm(
        image=part.path if part else arm.provided.title,
        mpi={"family": facts.family, "version": facts.version} if facts else {},
        env=dict(sorted({**arm.env.apply({}), **arm.rank_env}.items())),
    )
