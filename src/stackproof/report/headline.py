"""One sentence for each challenger: how fast it is, and at which sizes, in the words of a title."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence

from stackproof.compare.model import Cell, Comparison, Curve, Verdict
from stackproof.compare.overrule import WRONG_BYTES
from stackproof.core.numbers import size_text, value_text
from stackproof.core.value import Value
from stackproof.report.tables import curve_label, placements, presence, undecided
from stackproof.report.words import unit_text

_PLACES = {"intra-node": "within a node", "inter-node": "between nodes"}

_TIMES = 2.0
"""From this factor on a difference is told in times, below it in per cent."""

_NAMED = 2
"""So many curves are named where all their points are alike."""

_ALIKE = 1.2
"""Medians of all launches stand beside the ratio of pairs where they differ by less than this."""

_SLOWER, _TAIL, _FASTER, _SAME = "slower", "slower in the tail", "faster", "as fast"
_UNPROVEN, _NOISE, _OPEN = "slower but not proven", "within the noise", "undecided"
_FACTORED = frozenset({_SLOWER, _TAIL, _FASTER, _UNPROVEN})
_ORDER = (_SLOWER, _TAIL, _FASTER, _SAME, _UNPROVEN, _NOISE, _OPEN)


class _Spot(Value, kw_only=False):
    """One point of a challenger at one placement; `size` None where a benchmark has none."""

    curve: str
    size: int | None
    state: str
    ratio: float | None
    better: bool


def headline(comparison: Comparison, arm: str) -> str:
    """Return one sentence on a challenger: `mpich: within a node 6 to 8 times slower; …`.

    FAIL is slower, PASS as fast; what is undecided is named too. A region of sizes is named where
    every curve agrees in it, else the number of points. Places that say the same stand together.
    What overrules the cells stands first: `mpich: received wrong bytes; otherwise as fast …`.
    """
    overruled = _overruled(comparison, arm)
    speed = _speed(comparison, arm)
    if overruled == WRONG_BYTES:
        return f"{arm}: {overruled}; otherwise {speed}"
    return f"{arm}: {overruled or speed}"


def _overruled(comparison: Comparison, arm: str) -> str:
    return "".join(verdict.overruled for verdict in comparison.verdicts if verdict.arm == arm)


def _speed(comparison: Comparison, arm: str) -> str:
    """Return the speed of a challenger at each placement."""
    told: dict[str, list[str]] = {}
    for placement in placements(comparison):
        spots = list(_spots(comparison, arm, placement))
        if spots:
            told.setdefault(", ".join(_clauses(spots)), []).append(_place(comparison, placement))
    if not told:
        return "nothing to compare"
    text = next(iter(told))
    if "," not in text and len(told[text]) == len(placements(comparison)) > 1:
        return f"{text} everywhere"
    return "; ".join(f"{' and '.join(at)} {text}" for text, at in told.items())


def describe_title(comparison: Comparison) -> str:
    """Return a title of the names: `mpich and openmpi against intel-mpi`."""
    names = comparison.spec.challengers
    firsts = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return " against ".join(filter(None, (firsts, comparison.spec.baseline)))


def headlines(comparison: Comparison) -> tuple[str, ...]:
    """Return the sentences of all challengers but the null arm."""
    return tuple(headline(comparison, arm) for arm in comparison.spec.challengers)


def list_numbers(comparison: Comparison, arm: str, most: int = 3) -> list[str]:
    """Return the worst point of the challenger's worst curves, with the medians of both.

    `latency 8 B within a node: 6 times slower (1.5 against 0.24 µs)`. Points within the noise come
    last. Medians that tell another ratio than the pairs are left out.
    """
    lines = []
    for panel in comparison.panels:
        judgement, curve = panel.judgement(arm), panel.curve
        cells = [c for c in judgement.cells if c.ratio and c.is_judged] if judgement else []
        if not cells:
            continue
        cell = min(cells, key=lambda c: (_is_noise(c), _ratio(c)))
        label = curve_label(comparison, curve)
        spot = _spot(curve, label, cell)
        factor = _factors([spot]) if spot.state in _FACTORED else ""
        size = f" {size_text(cell.size)}" if curve.sized else ""
        points = (panel.points(name).get(cell.size) for name in (arm, comparison.spec.baseline))
        tail = cell.by_tail.statistic if cell.by_tail else ""
        numbers = [p.tails.get(tail, p.median) for p in points if p]
        text = f"{label}{size} {_place(comparison, curve.placement)}: {factor}{spot.state}"
        own, base = math.prod(numbers[:1]), math.prod(numbers[1:])
        over, under = (own, base) if curve.higher_is_better else (base, own)
        if under and 1 / _ALIKE <= over / under / _ratio(cell) <= _ALIKE:
            values = f"{tail} {' against '.join(map(value_text, numbers))}".lstrip()
            text += f" ({values} {unit_text(curve.unit)})"
        lines.append((_is_noise(cell), _ratio(cell), text))
    return [line for *_, line in sorted(lines)[:most]]


def _ratio(cell: Cell) -> float:
    tail = cell.by_tail
    return (tail.ratio if tail else cell.ratio) or 1.0


def _is_noise(cell: Cell) -> bool:
    """Return true for a cell that seems slower, but by no more than the noise floor."""
    return cell.seems_slower and (cell.high or 0.0) >= 1 - (cell.floor or 0.0)


def describe_reason(comparison: Comparison, arm: str) -> str:
    """Return the reason for an undecided challenger, a sentence; empty for others."""
    verdict = comparison.verdict_of(arm)
    groups = undecided(comparison, arm)
    if verdict.verdict is not Verdict.INCONCLUSIVE or verdict.overruled or not groups:
        return ""
    largest = max(groups, key=lambda group: group.count)
    total = verdict.passed + verdict.failed + verdict.inconclusive
    text = f"{largest.count} of {total} points are undecided because {largest.because}."
    early = "The measuring ended early." if comparison.unfinished else ""
    if not comparison.is_disturbed:
        return f"{early} {text}".lstrip()
    others = (
        f"Other programs ran on the CPUs of the ranks in {comparison.disturbed} of "
        f"{comparison.read} launches. While they run, more launches will not help."
    )
    return f"{early or (text if largest.launches else '')} {others}".lstrip()


def describe_next(comparison: Comparison, folder: str) -> str:
    """Return the next command, or in words how to come to a verdict."""
    spec, command = comparison.spec, shlex.quote(folder)
    again = "run the same command with another `-o FOLDER`"
    needs = [group.launches for arm in spec.challengers for group in undecided(comparison, arm)]
    if comparison.verdict is Verdict.FAIL:
        return f"stackproof doctor --results {command}, for the cause; stackproof report {command}"
    if comparison.verdict is Verdict.PASS or spec.command[1:2] == ("import",):
        more = "" if comparison.verdict is Verdict.PASS else "; more runs: stackproof import --add"
        return f"stackproof report {command}{more}"
    present = min(presence(comparison).values(), default=0)
    # Where a quarter was made and disturbed, the others cannot outweigh it.
    if comparison.unfinished and not (comparison.is_disturbed and 4 * present > spec.launches):
        wait = " --wait-for-quiet 30m" if comparison.is_disturbed else ""
        return f"stackproof bench --resume {command}{wait}"
    if max(needs, default=0) > spec.launches:
        again += f" and `--launches {max(needs)}`"
    if max(needs, default=0) > spec.launches and not comparison.is_disturbed:
        return again
    return f"when this machine is quiet, {again}; `--wait-for-quiet 30m` waits for that"


def _place(comparison: Comparison, placement: str) -> str:
    """Return a placement in words, its name where several are of one locality."""
    curves = {panel.curve.placement: panel.curve for panel in comparison.panels}
    alike = [one for one in curves.values() if one.locality == curves[placement].locality]
    words = _PLACES.get(curves[placement].locality)
    return words if words and len(alike) == 1 else f"at {placement}"


def _spots(comparison: Comparison, arm: str, placement: str) -> Iterator[_Spot]:
    for panel in comparison.panels:
        judgement = panel.judgement(arm)
        if panel.curve.placement == placement and judgement is not None:
            label = curve_label(comparison, panel.curve)
            yield from (_spot(panel.curve, label, cell) for cell in judgement.cells)


def _spot(curve: Curve, label: str, cell: Cell) -> _Spot:
    tail = cell.by_tail
    ratio = tail.ratio if tail else cell.ratio
    match cell.verdict:
        case Verdict.PASS:
            state = _SAME
        case Verdict.FAIL if tail:
            state = _TAIL
        case Verdict.FAIL:
            state = _FASTER if ratio is not None and ratio > 1 else _SLOWER
        case _:
            state = _NOISE if _is_noise(cell) else _UNPROVEN if cell.seems_slower else _OPEN
    better = state == _SAME and cell.low is not None and cell.low > 1 / (1 - cell.margin)
    size = cell.size if curve.sized else None
    return _Spot(curve=label, size=size, state=state, ratio=ratio, better=better)


def _clauses(spots: Sequence[_Spot]) -> Iterator[str]:
    """Yield `6 to 8 times slower up to 64 KiB`, `undecided at 3 of 46 points`, worst first."""
    of = f" of {len(spots)} points"
    for state in _ORDER:
        here = [spot for spot in spots if spot.state == state]
        if not here:
            continue
        words = state
        if state in _FACTORED:
            words = f"{_factors(here)}{state}"
        elif any(spot.better for spot in here):
            words = f"{state} or faster"
        where = _where(spots, here, of)
        if of and where.endswith(of):  # the first count says of how many
            of = ""
        yield f"{words}{where}"


def _factors(spots: Sequence[_Spot]) -> str:
    """Return by how much: `6 to 8 times `, `12 to 30 % `, `12 % to 8 times `; empty if unknown."""
    factors = [max(spot.ratio, 1 / spot.ratio) for spot in spots if spot.ratio]
    if not factors:
        return ""
    low, high = (_factor(one) for one in (min(factors), max(factors)))
    if low == high:
        return f"{low[0]} {low[1]} "
    unit = "" if low[1] == high[1] else f" {low[1]}"
    return f"{low[0]}{unit} to {high[0]} {high[1]} "


def _factor(factor: float) -> tuple[str, str]:
    """Return a factor as number and unit; per cent are those of the better one's value."""
    if factor < _TIMES:
        return f"{(1 - 1 / factor) * 100:.2g}", "%"
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.2g}", "times"


def _where(spots: Sequence[_Spot], here: Sequence[_Spot], of: str) -> str:
    """Return where spots of one state lie: ` from 1 MiB and at 3 more`; empty for all.

    A bare count ends with `of`.
    """
    if len(here) == len(spots):
        return ""
    curves = dict.fromkeys(spot.curve for spot in here)
    if len(curves) <= _NAMED and sum(spot.curve in curves for spot in spots) == len(here):
        return f" in {' and '.join(curves)}"
    sizes = sorted({spot.size for spot in spots if spot.size is not None})
    states = {size: {s.state for s in spots if s.size == size} for size in sizes}
    run = _longest([states[size] == {here[0].state} for size in sizes])
    inside = [spot for spot in here if spot.size in sizes[run]]
    others = len(here) - len(inside)
    if 2 * len(inside) < len(here):
        return f" at {len(here)}{of}"
    return f" {_range(sizes, run)}{f' and at {others} more' if others else ''}"


def _longest(flags: Sequence[bool]) -> slice:
    """Return the longest run of True; an empty slice where there is none."""
    best = slice(0, 0)
    start = 0
    for at, flag in enumerate(flags):
        if not flag:
            start = at + 1
        elif at + 1 - start > best.stop - best.start:
            best = slice(start, at + 1)
    return best


def _range(sizes: Sequence[int], run: slice) -> str:
    first, last = (size_text(size) for size in (sizes[run.start], sizes[run.stop - 1]))
    if run.stop - run.start == len(sizes):
        return "at all sizes"
    if run.start == 0 and run.stop > 1:
        return f"up to {last}"
    if run.stop == len(sizes) and run.stop - run.start > 1:
        return f"from {first}"
    return f"at {first}" if first == last else f"from {first} to {last}"
