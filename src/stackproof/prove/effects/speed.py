"""The speed of an injected MPI against the own one: launches in turn, and the house's statistics.

A program that is known here (`stackproof-bench`, `IMB-MPI1`) is told what to measure unless it is
given arguments; the tables of IMB and OSU are read from any program that prints them. What was
measured is a results folder, as `stackproof bench` writes it.
"""

from __future__ import annotations

import dataclasses
import posixpath
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import stackproof
from stackproof.bench import import_outputs, programs
from stackproof.bench.effects import launching
from stackproof.bench.import_outputs import OutputFile
from stackproof.compare import compare
from stackproof.compare.model import DEFAULT_MARGINS, Comparison
from stackproof.core import noun
from stackproof.core.command import Completed
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import Event, Monitor
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.prove.effects.arms import ProofArm, ProofRun, Ready, case_of, launch, words_of
from stackproof.prove.model import INJECTED, OWN, Speed
from stackproof.results import model as results_model
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Measurement, State
from stackproof.results.model import LAUNCHES, SPECIFICATION, Results, ResultsSpec

FEWEST = 5
"""Launches of each arm below which no interval is computed."""

_SEED = 20260101


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Ratios, or in `note` why there are none."""

    speed: tuple[Speed, ...] = ()
    launches: int = 0
    note: str = ""


def measure(ready: Ready, first: Mapping[str, Completed], monitor: Monitor) -> Compared:
    """Return how the two arms that run compare; `first` are the outputs seen of them already.

    The results folder gets every launch. Launches come in blocks of both arms in random order;
    the first block warms up and does not count.
    """
    stage, count = ready.stage, ready.stage.wanted.launches
    if count < FEWEST:
        return Compared(note=f"it takes {FEWEST} launches of each arm, and --launches is {count}")
    case = case_of(stage)
    if case is None and not _has_tables(stage, first[OWN]):
        return Compared(note="its output has no table of IMB or OSU")
    measured: list[Measurement] = []
    outputs: list[OutputFile] = []
    generator = random.Random(_SEED)  # noqa: S311 - an order to repeat, not a secret
    for block in range(count + 1):
        names = [OWN, INJECTED]
        generator.shuffle(names)
        for name in names:
            text = f"{name}, {block} of {count}"
            monitor(Event(what="progress", name="speed", text=text, done=block, total=count))
            done = _launched(stage, ready.arms[name])
            if case is not None:
                order = len(measured)
                measured.append(_measurement(case, name, block, order, done))
            elif block:
                text = done.stdout.decode(errors="replace")
                outputs.append(OutputFile(arm=name, name=f"{name}-{block}", text=text))
    try:
        results = _imported(ready, outputs) if case is None else _results(ready, measured)
        _save(stage, results)
        comparison = compare.compare(results)
    except StackproofError as error:
        return Compared(note=error.problems[0].message)
    return Compared(speed=tuple(_speeds(comparison)), launches=count)


def _launched(stage: ProofRun, arm: ProofArm) -> Completed:
    """Make a launch that nobody watches: what the loader reads is set for the ranks alone."""
    settings = [f"{name}={value}" for name, value in arm.rank_env.items()]
    return launch(stage, arm, (*(("env", *settings) if settings else ()), *words_of(stage)))


def _has_tables(stage: ProofRun, done: Completed) -> bool:
    text = done.stdout.decode(errors="replace")
    one = OutputFile(arm=OWN, name="output", text=text)
    setup = import_outputs.ImportSetup(
        name="", locality=stage.placement.locality, memory=BufferPlace.HOST
    )
    try:
        import_outputs.import_outputs([one], setup)
    except StackproofError as error:
        return error.reason is not Reason.NO_RESULTS
    return True


def _measurement(case: Case, name: str, block: int, order: int, done: Completed) -> Measurement:
    output = programs.REGISTRY[case.program].parse(done.stdout, case)
    good = done.returncode == 0 and not done.timed_out and output.complete
    check = Check(
        name="end",
        state=State.OK if good else State.BAD,
        reason="" if good else Reason.JOB_FAILED.value,
        evidence="it came to its end" if good else f"exit code {done.returncode}",
    )
    return Measurement(
        arm=name,
        block=block,
        order=order,
        case=case,
        output=output,
        checks=(check,),
        argv=done.argv,
        env={},
        started=launching.now(),
        seconds=done.seconds,
    )


def _imported(ready: Ready, outputs: list[OutputFile]) -> Results:
    stage = ready.stage
    setup = import_outputs.ImportSetup(
        name="injection",
        locality=stage.placement.locality,
        memory=BufferPlace.HOST,
        baseline=OWN,
        ranks=len(stage.placement.ranks),
    )
    found = import_outputs.import_outputs(outputs, setup).results
    spec = _spec(ready)
    return dataclasses.replace(found, spec=dataclasses.replace(spec, launches=found.spec.launches))


def _results(ready: Ready, measured: list[Measurement]) -> Results:
    return Results(spec=_spec(ready), measurements=tuple(measured))


def _spec(ready: Ready) -> ResultsSpec:
    wanted = ready.stage.wanted
    return ResultsSpec(
        name=f"{posixpath.basename(ready.stage.program)} with {wanted.replacement}",
        baseline=OWN,
        challengers=(INJECTED,),
        margins=dict(DEFAULT_MARGINS),
        launches=wanted.launches,
        minimum_launches=FEWEST,
        seed=_SEED,
        created=launching.now(),
        arms={name: _result_arm(ready.arms[name]) for name in (OWN, INJECTED)},
        command=tuple(sys.argv),
        stackproof=stackproof.__version__,
    )


def _result_arm(arm: ProofArm) -> results_model.ComparedArm:
    facts, part = arm.provided.facts, arm.provided.part
    return results_model.ComparedArm(
        image=part.path if part else arm.provided.title,
        mpi={"family": facts.family, "version": facts.version} if facts else {},
        env=dict(sorted({**arm.env.apply({}), **arm.rank_env}.items())),
    )


def _save(stage: ProofRun, results: Results) -> None:
    """Write a results folder that `compare` and `report` read."""
    files.write(stage.folder / SPECIFICATION, noun.to_json(results.spec))
    for order, one in enumerate(results.measurements):
        name = f"{order:05d}-{one.arm}-{one.case.placement.name}-{one.case.program}.json"
        files.write(stage.folder / LAUNCHES / name, noun.to_json(one))


def _speeds(comparison: Comparison) -> Iterator[Speed]:
    """Yield the ratio of each range of sizes, or of each size where there is no range."""
    for panel in comparison.panels:
        found = panel.judgement(INJECTED)
        if found is None:
            continue
        title = panel.curve.title
        for regime in found.regimes:
            yield Speed(
                benchmark=title,
                sizes=(min(regime.sizes), max(regime.sizes)),
                ratio=regime.ratio,
                low=regime.low,
                high=regime.high,
            )
        for cell in () if found.regimes else found.cells:
            if cell.ratio is not None and cell.low is not None and cell.high is not None:
                yield Speed(
                    benchmark=title,
                    sizes=(cell.size, cell.size),
                    ratio=cell.ratio,
                    low=cell.low,
                    high=cell.high,
                )
