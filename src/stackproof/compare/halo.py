"""Launches of a solver: whether all solved the same system, and which exchange is the fastest.

A solver sums over its ranks in their order, so that with every MPI, and however the halo is
exchanged, the residuals of the first iterations are the same numbers but for rounding.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from stackproof.compare.collect import CollectedResults
from stackproof.compare.disturbance import Disturbed
from stackproof.compare.judge import FEWEST_BLOCKS
from stackproof.compare.model import Note
from stackproof.compare.resampling import centers, intervals
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.results.measurement import Check, Measurement, State
from stackproof.results.metrics import HALO_MODES
from stackproof.results.model import Results

_FIRST = 10
"""Residuals that are compared; later ones show rounding, which compilers may do otherwise."""

_AGREEMENT = 1e-10
"""How far they may be apart, as a fraction."""

_ROUNDING = 1e-15
"""Residuals below it are rounding and nothing else."""

_SLOW = 1.5
"""So many times as long as packed messages must datatypes take at least, before it is a warning.

An MPI should never be slower with them (W. Gropp, T. Hoefler, R. Thakur and J. L. Träff, EuroMPI
2011, LNCS 6960). The half more is our choice: for less nobody changes an application.
"""

_History = tuple[float, ...]


def check_residuals(results: Results) -> Results:
    """Return results in which launches that solved another system have a check that is BAD.

    What most launches of the same ranks and options say is right; where as many say otherwise, it
    is what the baseline says.
    """
    groups: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for launch in results.measurements:
        if any(series.residuals for series in launch.output.series):
            case = launch.case
            groups[case.program, len(case.placement.ranks), case.options].append(launch)
    strangers = (pair for group in groups.values() for pair in _strangers(group, results))
    bad = {id(launch): text for launch, text in strangers}
    if not bad:
        return results
    measurements = tuple(
        replace(launch, checks=(*launch.checks, _wrong(bad[id(launch)])))
        if id(launch) in bad
        else launch
        for launch in results.measurements
    )
    return replace(results, measurements=measurements)


def _wrong(text: str) -> Check:
    reason = Reason.VALIDATION_FAILED.value
    return Check(name="residuals", state=State.BAD, reason=reason, evidence=text)


def _histories(launch: Measurement) -> Iterator[tuple[str, _History]]:
    for series in launch.output.series:
        yield series.benchmark, series.residuals[:_FIRST]


def _strangers(group: list[Measurement], results: Results) -> Iterator[tuple[Measurement, str]]:
    """Yield the launches whose residuals are not those of most, with the first that is not."""
    votes = Counter(next(_histories(launch))[1] for launch in group if launch.usable)
    baseline = [launch for launch in group if launch.arm == results.spec.baseline]
    base = {next(_histories(launch))[1] for launch in baseline}
    usual = max(votes, key=lambda history: (votes[history], history in base), default=())
    for launch in group:
        for name, history in _histories(launch):
            apart = _apart(history, usual)
            if apart is not None:
                yield (
                    launch,
                    (
                        f"{name}: residual {apart + 1} is {_number(history, apart)}, and "
                        f"{_number(usual, apart)} in most launches of the same system"
                    ),
                )
                break


def _apart(history: _History, usual: _History) -> int | None:
    """Return the first place at which two histories differ, None where they agree."""
    for place, (own, known) in enumerate(zip(history, usual, strict=False)):
        if not abs(own - known) <= _AGREEMENT * abs(known) + _ROUNDING:
            return place
    return min(len(history), len(usual)) if len(history) != len(usual) else None


def _number(history: _History, place: int) -> str:
    return f"{history[place]:.12g}" if place < len(history) else "none"


def describe_exchanges(
    collected: CollectedResults, null: str | None, hurt: Sequence[Disturbed]
) -> Iterator[Note]:
    """Yield a note for each arm and placement: the time of its exchanges, and slow datatypes.

    A warning says that the interval of indexed over packed lies above `_SLOW`, and that it does so
    without the launches that something else disturbed.
    """
    places: dict[tuple[str, str], dict[str, dict[str, Mapping[int, float]]]] = {}
    for (placement, program, benchmark), by_arm in collected.table.items():
        part, _, mode = benchmark.partition("_")
        for arm, cells in by_arm.items():
            if part == "halo" and mode in HALO_MODES and arm != null and cells.get(0):
                arms = places.setdefault((placement, program), {})
                arms.setdefault(arm, {})[mode] = cells[0]
    for (placement, program), arms in places.items():
        for arm, modes in arms.items():
            key = (arm, placement, program)
            bad = {o.block for o in hurt if (o.arm, o.placement, o.program) == key}
            yield _note(arm, placement, modes, bad)


def _note(
    arm: str, placement: str, modes: Mapping[str, Mapping[int, float]], hurt: Collection[int]
) -> Note:
    medians = {mode: statistics.median(blocks.values()) for mode, blocks in modes.items()}
    ordered = sorted(medians, key=lambda mode: medians[mode])
    shown = ", ".join(f"{mode} {medians[mode]:.3g} us" for mode in ordered)
    text = f"a halo exchange of {arm} at {placement}, the fastest way first: {shown}"
    indexed = modes.get("indexed", {})
    ratio = _ratio(indexed, modes.get("pack", {}))
    if ratio is None:
        return Note(level="note", text=text)
    middle, low, high = ratio
    text += (
        f"; as datatypes (indexed) it takes {middle:.2f} times as long as packed by the program "
        f"(95 % interval {low:.2f} to {high:.2f})"
    )
    if low < _SLOW:
        return Note(level="note", text=text)
    quiet = {block: value for block, value in indexed.items() if block not in hurt}
    ratio = _ratio(quiet, modes.get("pack", {}))
    if ratio is None or ratio[1] < _SLOW:
        text += "; that is not borne out by launches that nothing disturbed"
        return Note(level="note", text=text)
    return Note(level="warning", text=f"{text}: datatypes are slow with this MPI, so pack")


def _ratio(
    above: Mapping[int, float], below: Mapping[int, float]
) -> tuple[float, float, float] | None:
    """Return the typical ratio of two results of the same launches and its interval, or None."""
    blocks = sorted(above.keys() & below.keys())
    if len(blocks) < FEWEST_BLOCKS:
        return None
    logs = np.array([[math.log(above[block] / below[block]) for block in blocks]])
    low, high = intervals(logs, 0.025)
    return math.exp(centers(logs)[0]), math.exp(low[0]), math.exp(high[0])
