"""Observations of an experiment that was looked at while it ran, to what each look decided.

Each look is taken again on the launches that were there at the time, at the level that `looks`
gives it. What a look decided stays decided: launches that were made later, for the sake of others,
do not change it.

Whoever looks six times takes six chances to be wrong. So all looks that were planned test at one
stricter level, chosen so that together they err as seldom as one test would (S. J. Pocock, Group
Sequential Methods in the Design and Analysis of Clinical Trials, Biometrika 64, 1977). Intervals
of that level hold the truth at all looks together as often as one would (C. Jennison and B. W.
Turnbull, Interim Analyses: the Repeated Confidence Interval Approach, J. R. Stat. Soc. B 51, 1989),
so it does not matter why somebody stopped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist

import numpy as np
from msgspec import field

from stackproof.compare import looks
from stackproof.compare.judge import MEDIAN, Observations, Open, Part, Rules
from stackproof.compare.model import (
    NULL_FAMILY_ERROR,
    TAIL_ERROR,
    ArmJudgement,
    Cell,
    Tail,
    Verdict,
)
from stackproof.compare.resampling import Floats
from stackproof.core.value import Value, replace

Key = tuple[str, str, str]
"""Placement, program and benchmark of a curve."""

Table = Mapping[Key, Mapping[str, Observations]]
"""Curve -> arm -> observations."""

Judgements = Mapping[tuple[Key, str], ArmJudgement]
"""(curve, arm) -> judgement."""

Wanted = Mapping[tuple[Key, str], frozenset[Part]]
"""(curve, arm) -> the parts that are to be judged."""


class Look(Value, kw_only=False):
    """The observations of a look, what earlier ones decided, and what is wanted: None for all."""

    table: Table
    before: Judgements = field(default_factory=dict)
    wanted: Wanted | None = None
    last: bool = True

    def parts(self, key: Key, arm: str) -> Open | None:
        """Return the parts of an arm that are still open on a curve, None for nothing."""
        earlier = self.before.get((key, arm))
        seen = [] if earlier is None else list(parts_of(earlier))
        decided = frozenset(part for part, one in seen if one.verdict is not Verdict.INCONCLUSIVE)
        if self.wanted is not None:
            wanted = self.wanted.get((key, arm), frozenset())
            return None if wanted <= decided else Open(decided, wanted, self.last)
        done = earlier is not None and len(decided) == len(seen)
        return None if done else Open(decided, None, self.last)


def parts_of(judgement: ArmJudgement) -> Iterator[tuple[Part, Cell | Tail]]:
    """Yield each part of a judgement with its name."""
    for cell in judgement.cells:
        yield (cell.size, MEDIAN), cell
        for tail in cell.tails:
            yield (cell.size, tail.statistic), tail


def rules_of_looks(rules: Rules, plan: tuple[int, ...]) -> Rules:
    """Return the rules of one look of several: at the level at which all make no more errors."""
    tail = level_of_looks(plan, rules.tail)
    return replace(
        rules,
        confidence=1 - 2 * tail,
        family_error=level_of_looks(plan, rules.family_error),
        null_family_error=level_of_looks(plan, NULL_FAMILY_ERROR),
        tail_error=level_of_looks(plan, TAIL_ERROR),
        # With fewer pairs than that no interval is as sure as it must be.
        minimum_launches=math.ceil(-math.log2(tail)),
    )


def replayed(
    table: Table, plan: tuple[int, ...], wanted: Wanted | None, judged: Callable[[Look], Judgements]
) -> Judgements:
    """Return what all looks that were possible decided; before the first one nothing is decided."""
    found: Judgements = {}
    taken = looks_taken(table, plan)
    for look in taken:
        later = judged(Look(until(table, look), found, wanted, last=look == taken[-1]))
        found = {**found, **{key: _merged(found.get(key), one) for key, one in later.items()}}
    return found


def looks_taken(table: Table, plan: tuple[int, ...]) -> tuple[int, ...]:
    """Return the looks that were possible, or the last block where there was none."""
    last = max(
        (b for by_arm in table.values() for o in by_arm.values() for b in _blocks(o)), default=0
    )
    return looks.taken(plan, last) or (last,)


def _blocks(observations: Observations) -> set[int]:
    return {block for by_block in observations.values() for block in by_block}


def until(table: Table, look: int) -> Table:
    """Return the observations of the blocks up to a look."""
    return kept(table, lambda _, __, block: block <= look)


def kept(table: Table, is_kept: Callable[[Key, str, int], bool]) -> Table:
    """Return the observations of the launches that are kept: by curve, arm and block."""
    return {
        key: {
            arm: {
                size: {
                    block: value for block, value in by_block.items() if is_kept(key, arm, block)
                }
                for size, by_block in observations.items()
            }
            for arm, observations in by_arm.items()
        }
        for key, by_arm in table.items()
    }


def _merged(earlier: ArmJudgement | None, later: ArmJudgement) -> ArmJudgement:
    """Return the later judgement with what was decided earlier, medians and tails, as it was."""
    before = {} if earlier is None else {cell.size: cell for cell in earlier.cells}
    cells = tuple(_kept(before.get(cell.size), cell) for cell in later.cells)
    return ArmJudgement(arm=later.arm, cells=cells)


def _kept(earlier: Cell | None, later: Cell) -> Cell:
    if earlier is None:
        return later
    decided = {
        tail.statistic: tail for tail in earlier.tails if tail.verdict is not Verdict.INCONCLUSIVE
    }
    tails = {**{tail.statistic: tail for tail in later.tails}, **decided}
    cell = later if earlier.verdict is Verdict.INCONCLUSIVE else earlier
    return replace(cell, tails=tuple(tails.values()))


# --- levels of looks ------------------------------------------------------------------------

_GRID = 200
_FARTHEST = 8.0  # standard deviations; what lies beyond is nothing
_HALVINGS = 22
_POINTS = np.linspace(-40.0, 40.0, 16001)
_BEYOND = np.array([math.erfc(point / math.sqrt(2)) / 2 for point in _POINTS.tolist()])


@functools.lru_cache(maxsize=64)
def level_of_looks(looks: tuple[int, ...], error: float) -> float:
    """Return the one-sided level of every look, so that all together make `error`."""
    low, high = 0.0, _FARTHEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _crossing(looks, middle) > error else (low, middle)
    return 1 - NormalDist().cdf(high)


def _crossing(looks: Sequence[int], boundary: float) -> float:
    """Return the chance that a statistic without a cause exceeds the boundary at some look.

    Statistics of two looks have the launches of the first in common: they are sums of as many
    normal variables, and their distribution is integrated from look to look (P. Armitage, C. K.
    McPherson and B. C. Rowe, Repeated Significance Tests on Accumulating Data, J. R. Stat. Soc. A
    132, 1969).
    """
    sums, weights, before, crossed = np.zeros(1), np.ones(1), 0, 0.0
    for look in looks:
        step, root = math.sqrt(look - before), math.sqrt(look)
        crossed += float(weights @ _beyond((boundary * root - sums) / step))
        edges = np.linspace(-_FARTHEST * root, boundary * root, _GRID + 1)
        weights = -np.diff(_beyond((edges[:, None] - sums) / step), axis=0) @ weights
        sums, before = (edges[:-1] + edges[1:]) / 2, look
    return crossed


def _beyond(values: Floats) -> Floats:
    """Return the chance of a normal variable to exceed each value."""
    return np.asarray(np.interp(values, _POINTS, _BEYOND), dtype=np.float64)
