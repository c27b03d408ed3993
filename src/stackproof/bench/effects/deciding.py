"""Launches that are made until enough is decided: one block after the other, with looks between.

What a look decided is worked out from the launches that are there, so that whoever continues, here
or in a job, comes to the same answer and makes the launches that the first one would have made.
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.compare import looks
from stackproof.compare.disturbance import disturbed
from stackproof.compare.effects.results import load_results
from stackproof.compare.model import Cell, Panel, Verdict, Why, is_too_many
from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.core.errors import StackproofError
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace
from stackproof.results.effects.record import load_launch
from stackproof.results.model import LAUNCHES, Results

BUDGET = "budget.json"
"""How many seconds of timed launches a results folder may hold before it is asked to stop."""

_HOPELESS = frozenset({Why.NO_PAIRS, Why.NOT_TRUSTED})
_BUSY = "other programs disturb the launches, so more of them will not help; wait until it is quiet"
_SHARES = (1 / 3, 2 / 3, 1.0)

Work = Mapping[tuple[str, str], Mapping[str, frozenset[str]]]
"""(placement, program) -> arm -> benchmarks on which it has undecided points."""


class Experiment(Value):
    """What is to be measured: the specification, all of its launches, and where results are.

    `null` is the arm that only shows how much the baseline differs from itself: it is measured
    beside what is open and is itself no question. None where it is the only arm beside the
    baseline, and then it is one.
    """

    spec: BenchSpec
    plan: Sequence[Launch]
    baseline: str
    folder: Path
    null: str | None = None


def looks_of(spec: BenchSpec) -> tuple[int, ...]:
    """Return after how many launches per arm it is looked, nothing where it is not."""
    return looks.planned(spec.launches) if spec.until_decided else ()


def blocks(experiment: Experiment, monitor: Monitor) -> Iterator[tuple[Launch, ...]]:
    """Yield the launches to be made, done ones among them, so many as belong together.

    These are all at once, or with `until_decided` one block at a time until nothing is open, the
    budget is spent (the first timed block is made all the same), or the most launches are made.
    What is yielded must be made before the next is asked for.
    """
    spec, plan, folder = experiment.spec, experiment.plan, experiment.folder
    if not spec.until_decided:
        yield tuple(plan)
        return
    yield tuple(one for one in plan if one.block == 0)
    budget, seconds = budget_of(folder, spec), _seconds(folder)
    # What is only validated decides nothing: on a busy machine it alone may take all the time.
    validated = {_order(one.file_name) for one in plan if one.block == 0}
    used = math.fsum(s for name, s in seconds.items() if _order(name) not in validated)
    last, work = 0, None
    for look in looks_of(spec):
        for block in range(last + 1, look + 1):
            wanted = tuple(_narrowed(experiment, block, work))
            todo = [one for one in wanted if one.file_name not in seconds]
            cost = _typical(todo, seconds)
            if budget is not None and block > 1 and used + cost > budget:
                text = f"the budget of {_minutes(budget)} ends here; {_offer(experiment)}"
                monitor(_note(text))
                return
            began = time.monotonic()
            yield wanted
            found = _seconds(folder, todo)
            seconds.update(found)
            used += max(time.monotonic() - began, math.fsum(found.values()))
        panels = _panels(folder, look)
        work, last = open_work(panels, experiment.null, look, spec.launches), look
        decided = _decided(_cells(panels, experiment.null))
        monitor(_note(f"after {look} launches per arm {decided}"))
        if not work:
            break
    monitor(_note(_offer(experiment)))


def _order(name: str) -> str:
    return name.partition("-")[0]


def missing(experiment: Experiment) -> tuple[Launch, ...]:
    """Return the launches to be made next that have no result; none when enough is decided."""
    place = experiment.folder / LAUNCHES
    have = set(os.listdir(place)) if place.is_dir() else set()
    for wanted in blocks(experiment, lambda _: None):
        absent = tuple(one for one in wanted if one.file_name not in have)
        if absent:
            return absent
    return ()


def keep_budget(folder: Path, seconds: float | None) -> None:
    """Write down how long launches may take in all, for whoever makes them."""
    if seconds is not None:
        files.write(folder / BUDGET, noun.to_json({"seconds": seconds}))


def budget_of(folder: Path, spec: BenchSpec) -> float | None:
    """Return how many seconds timed launches may take in all: as specified, else as kept there."""
    if spec.budget_s is not None or not (folder / BUDGET).exists():
        return spec.budget_s
    path = folder / BUDGET
    return float(noun.from_json(dict[str, float], path.read_bytes(), file=str(path))["seconds"])


def open_work(panels: Sequence[Panel], null: str | None, look: int, most: int) -> Work:
    """Return what more launches may still decide: points that are open and not out of reach.

    The null arm comes along on curves where challengers are undecided, and so is it.
    """
    still = {
        (panel.curve.placement, panel.curve.program, panel.curve.benchmark, judgement.arm)
        for panel in panels
        for judgement in panel.judgements
        if any(_open(cell, look, most) for cell in judgement.cells)
    }
    asked = {one[:3] for one in still if one[3] != null}
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for placement, program, benchmark, arm in still:
        if (placement, program, benchmark) in asked:
            found[placement, program][arm].add(benchmark)
    return {
        key: {arm: frozenset(names) for arm, names in by_arm.items()}
        for key, by_arm in found.items()
    }


def _open(cell: Cell, look: int, most: int) -> bool:
    """Return whether a point may still be decided: estimates of few launches rule nothing out."""
    if cell.verdict is not Verdict.INCONCLUSIVE or cell.why in _HOPELESS:
        return False
    sure = look >= looks.FIRST_LOOK * 1.3
    return not sure or cell.why is Why.DISTURBED or (cell.launches_needed or most + 1) <= most


def _narrowed(experiment: Experiment, block: int, work: Work | None) -> Iterator[Launch]:
    """Yield a block's launches of arms that have open points, and of the baseline beside them.

    All of them run the same benchmarks, those on which one of them is undecided, so that
    each finds the machine as the others leave it.
    """
    for launch in experiment.plan:
        if launch.block != block:
            continue
        if work is None:
            yield launch
            continue
        here = work.get((launch.placement, launch.program), {})
        if here and (launch.arm in here or launch.arm == experiment.baseline):
            names = frozenset().union(*here.values())
            yield replace(launch, benchmarks=tuple(sorted(names)))


def _panels(folder: Path, look: int) -> tuple[Panel, ...]:
    from stackproof.compare.compare import panels_of  # noqa: PLC0415 - numpy, and only for a look

    results: Results = load_results(folder)
    seen = tuple(one for one in results.measurements if one.block <= look)
    return panels_of(replace(results, measurements=seen))


def _seconds(folder: Path, launches: Sequence[Launch] | None = None) -> dict[str, float]:
    """Return how long launches of a results folder took, by the names of their files."""
    place = folder / LAUNCHES
    names = sorted(path.name for path in place.glob("*.json"))
    if launches is not None:
        names = [one.file_name for one in launches if (place / one.file_name).exists()]
    found = {}
    for name in names:
        try:
            found[name] = load_launch(place / name).seconds
        except StackproofError:
            continue  # `compare` says what is wrong with it
    return found


def _typical(wanted: Sequence[Launch], seconds: Mapping[str, float]) -> float:
    """Return how long launches take, by those of the same arm; 0 for what nobody knows."""
    taken: dict[str, list[float]] = defaultdict(list)
    for name, value in seconds.items():
        taken[name.partition("-")[2]].append(value)
    return math.fsum(
        math.fsum(times) / len(times)
        for one in wanted
        if (times := taken.get(one.file_name.partition("-")[2]))
    )


def _cells(panels: Sequence[Panel], null: str | None) -> list[Cell]:
    """Return the points of every challenger; those of the null arm are no question."""
    return [
        cell
        for panel in panels
        for one in panel.judgements
        if one.arm != null
        for cell in one.cells
    ]


def _decided(cells: Sequence[Cell]) -> str:
    done = sum(cell.verdict is not Verdict.INCONCLUSIVE for cell in cells)
    return f"{done} of {len(cells)} points are decided"


def _offer(experiment: Experiment) -> str:
    """Return what more time would buy: how many points by how many launches, and how long."""
    folder = experiment.folder
    try:
        results = load_results(folder)
    except StackproofError:
        return "no launch has a result yet"
    made = max((one.block for one in results.measurements), default=0)
    panels = _panels(folder, made)
    cells = _cells(panels, experiment.null)
    left = [cell for cell in cells if cell.verdict is Verdict.INCONCLUSIVE]
    if not left:
        return "every point is decided" if cells else "nothing is judged yet"
    made_all = results.measurements
    if is_too_many(len(disturbed(made_all)), len(made_all)):
        return f"{_decided(cells)}, {len(left)} are open: {_BUSY}"
    estimates = [cell.launches_needed or 0 for cell in left]
    needed = sorted(estimate - made for estimate in estimates if estimate > made)
    block = tuple(_narrowed(experiment, max(made, 1), open_work(panels, experiment.null, 0, 0)))
    pace = _typical(block, _seconds(folder))
    steps = dict.fromkeys(needed[math.ceil(share * len(needed)) - 1] for share in _SHARES if needed)
    texts = [
        f"{more} more launches per arm (about {_minutes(more * pace)}) would decide "
        f"{sum(one <= more for one in needed)}"
        for more in steps
    ]
    beyond = len(left) - len(needed)
    if beyond:
        texts.append(f"no number of launches that makes sense would decide {beyond}")
    return f"{_decided(cells)}, {len(left)} are open: {'; '.join(texts)}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _note(text: str) -> Event:
    return Event(what="note", name="look", text=text)
