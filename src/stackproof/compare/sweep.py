"""Launches of settings in blocks to which settings are left, and which is best at each size.

A setting is given up when the others that stay are as good at every size: when at each size the
interval of its difference to one of them, in launches of the same blocks, ends below the margin.
What may be better than all others by more than the margin therefore stays, if at one size only. At
each look at most the worse half goes (successive halving: Z. Karnin, T. Koren and O. Somekh, Almost
Optimal Exploration in Multi-Armed Bandits, ICML 2013), and who went before must still be matched by
who is left.

To give up a setting that is better than all others by more than the margin at some size, an
interval must be wrong at that size, at some look, against one of the others: all of these together
err with the chance `ERROR`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stackproof.compare import look_levels, looks, resampling
from stackproof.compare.collect import CollectedResults, curves_of
from stackproof.compare.judge import Observations
from stackproof.compare.model import Choice, Curve, SweepOutcome
from stackproof.compare.resampling import Floats
from stackproof.compare.sequential import Table, until
from stackproof.core.value import Value
from stackproof.results.model import Results, ResultsSpec

ERROR = 0.05
"""The chance to give up the one setting that is best at a size by more than the margin."""

Key = tuple[str, str, str]


class SweepPlan(Value):
    """What is compared: arms, the baseline first, after how many blocks, and margins by kind."""

    arms: tuple[str, ...]
    looks: tuple[int, ...]
    margins: Mapping[str, float]

    @property
    def tail(self) -> float:
        """Return the chance of each interval to be wrong at one end."""
        return _tail(self.looks, len(self.arms))

    @property
    def needed(self) -> int:
        """Return how many pairs an interval needs to be as sure as it must be."""
        return _pairs(self.tail)


def _tail(after: tuple[int, ...], arms: int) -> float:
    return look_levels.level(after, ERROR / max(arms - 1, 1))


def _pairs(tail: float) -> int:
    """Return how many pairs have a pattern that is as rare: so many coins on one side."""
    return math.ceil(-math.log2(tail))


def planned_looks(most: int, arms: int) -> tuple[int, ...]:
    """Return after how many blocks to look: first when a setting can be given up, `most` last."""
    for first in range(looks.FIRST_LOOK, most):
        found = looks.growing(first, most)
        if _pairs(_tail(found, arms)) <= first:
            return found
    return (most,)


def plan_of(spec: ResultsSpec, margins: Mapping[str, float]) -> SweepPlan:
    """Return what a sweep compares, and when."""
    arms = (spec.baseline, *spec.challengers)
    return SweepPlan(arms=arms, looks=spec.looks or (spec.launches,), margins=margins)


def found(
    results: Results, collected: CollectedResults, margins: Mapping[str, float]
) -> SweepOutcome | None:
    """Return what a sweep found; None for results of anything else."""
    spec = results.spec
    if not spec.sweep:
        return None
    timed = {
        (
            one.case.placement.name,
            one.case.program,
            one.arm,
            one.block,
        )  # a repeated one counts once
        for one in results.measurements
        if one.block > 0
    }
    starts = {one[:2] for one in timed}
    counts = (len(timed), len(starts) * (len(spec.challengers) + 1) * spec.launches)
    return outcome(collected.table, curves_of(collected), plan_of(spec, margins), counts)


def remaining(
    table: Table, curves: Mapping[Key, Curve], plan: SweepPlan, block: int
) -> dict[Key, tuple[str, ...]]:
    """Return the settings that are left on each curve after a block; one alone is decided."""
    return {key: _left(curves[key], table[key], plan, block) for key in table if key in curves}


def _left(
    curve: Curve, by_arm: Mapping[str, Observations], plan: SweepPlan, block: int
) -> tuple[str, ...]:
    alive = tuple(arm for arm in plan.arms if by_arm.get(arm))
    for look in looks.taken(plan.looks, block):
        seen = until({curve.key: by_arm}, look)[curve.key]
        if len(alive) > 1:
            alive = _halved(_Differences(curve, seen, plan), alive)
    return alive


class _Differences:
    """How settings differ from each other, at each size of a curve.

    `centers` are logarithms of ratios (`arms x arms x sizes`), above 0 where the first is better,
    NaN without a pair; `within` says where the first is surely not better by the margin.
    """

    def __init__(self, curve: Curve, by_arm: Mapping[str, Observations], plan: SweepPlan) -> None:
        self.arms = tuple(arm for arm in plan.arms if by_arm.get(arm))
        self.sizes = tuple(sorted({size for arm in self.arms for size in by_arm[arm]}))
        self.plan = plan
        blocks = sorted({b for arm in self.arms for one in by_arm[arm].values() for b in one})
        logs = [
            [[math.log(by_arm[a].get(s, {}).get(b, math.nan)) for b in blocks] for s in self.sizes]
            for a in self.arms
        ]
        self._logs = np.array(logs) * (1.0 if curve.higher_is_better else -1.0)
        margin = -math.log1p(-plan.margins[curve.kind])
        shape = (len(self.arms), len(self.arms), len(self.sizes))
        self.centers, self.within = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        for one, other in itertools.combinations(range(len(self.arms)), 2):
            rows = self._logs[one] - self._logs[other]
            there = np.flatnonzero(np.isfinite(rows).any(axis=1))
            if there.size:
                center = resampling.centers(rows[there])
                self.centers[one, other, there] = center
                self.centers[other, one, there] = -center
            self.within[one, other] = self._below(rows, margin)
            self.within[other, one] = self._below(-rows, margin)

    def _below(self, rows: Floats, limit: float) -> npt.NDArray[np.bool_]:
        """Return for each row whether it is surely below a limit; never where pairs are few."""
        sure = np.isfinite(rows).sum(axis=1) >= self.plan.needed
        found = np.zeros(len(rows), dtype=bool)
        if sure.any():
            kept = rows[sure][:, np.isfinite(rows[sure]).any(axis=0)]
            found[sure] = resampling.below(kept, np.full(len(kept), limit), self.plan.tail)
        return found

    def matched(self, arm: str, others: Sequence[str]) -> bool:
        """Return whether at each size one of the others is as good, within the margin."""
        one = self.arms.index(arm)
        known = np.isfinite(self.centers[one]).any(axis=0)
        return bool(self.within[one][[self.arms.index(o) for o in others]].any(axis=0)[known].all())

    def advantage(self, arm: str, others: Sequence[str]) -> float:
        """Return by how much an arm leads all others where it leads most."""
        row = self.centers[self.arms.index(arm)][[self.arms.index(other) for other in others]]
        leads = np.where(np.isnan(row), np.inf, row).min(axis=0)
        leads = leads[np.isfinite(leads)]
        return float(leads.max()) if leads.size else -math.inf

    def leader(self, arms: Sequence[str], at: int) -> str:
        """Return the arm of some that leads at a size, by its index."""
        rows = [self.arms.index(arm) for arm in arms]
        table = self.centers[np.ix_(rows, rows)][:, :, at]
        leads = np.where(np.isnan(table), np.inf, table).min(axis=1)
        return arms[int(np.argmax(np.where(np.isinf(leads), -np.inf, leads)))]

    def worse(self, arm: str, than: str, at: int) -> bool:
        """Return whether an arm is surely worse than another at a size."""
        rows = self._logs[self.arms.index(arm)] - self._logs[self.arms.index(than)]
        return bool(self._below(rows[[at]], 0.0)[0])

    def interval(self, arm: str, to: str, at: int) -> tuple[float, float, float] | None:
        """Return the ratio of two arms at a size with its interval; None where pairs are few."""
        rows = (self._logs[self.arms.index(arm)] - self._logs[self.arms.index(to)])[[at]]
        rows = rows[:, np.isfinite(rows[0])]
        if rows.shape[1] < self.plan.needed:
            return None
        low, high = resampling.intervals(rows, self.plan.tail)
        center = resampling.centers(rows)
        return math.exp(center[0]), math.exp(low[0]), math.exp(high[0])


def _halved(found: _Differences, alive: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings without those of the worse half that the others match."""
    gone = [arm for arm in found.arms if arm not in alive]
    left = list(alive)
    worst = sorted(
        alive, key=lambda arm: found.advantage(arm, [one for one in alive if one != arm])
    )
    for arm in worst[: (len(alive) + 1) // 2]:
        others = [one for one in left if one != arm]
        if others and all(found.matched(one, others) for one in (*gone, arm)):
            left, gone = others, [*gone, arm]
    return tuple(left)


def outcome(
    table: Table, curves: Mapping[Key, Curve], plan: SweepPlan, launches: tuple[int, int]
) -> SweepOutcome:
    """Return the best setting at each size, with its ratio to the baseline, and one for all sizes.

    `launches` are how many timed ones there are, and how many a full grid would have.
    """
    left = remaining(table, curves, plan, _last_block(table))
    choices = tuple(
        choice
        for key, alive in left.items()
        for choice in _choices(curves[key], table[key], plan, alive)
    )
    return SweepOutcome(
        choices=choices,
        best=_overall(choices, plan.arms),
        launches=launches[0],
        grid=launches[1],
        left={" ".join(key): arms for key, arms in left.items()},
    )


def _last_block(table: Table) -> int:
    observations = (one for by_arm in table.values() for one in by_arm.values())
    blocks = (block for one in observations for by_block in one.values() for block in by_block)
    return max(blocks, default=0)


def _choices(
    curve: Curve, by_arm: Mapping[str, Observations], plan: SweepPlan, alive: tuple[str, ...]
) -> Iterator[Choice]:
    found = _Differences(curve, by_arm, plan)
    baseline = plan.arms[0]
    for at, size in enumerate(found.sizes):
        best = found.leader(alive, at)
        others = [arm for arm in found.arms if arm != best]
        equal = tuple(arm for arm in others if not found.worse(arm, best, at))
        compared = best != baseline and baseline in found.arms
        known = found.interval(best, baseline, at) if compared else None
        ratio, low, high = known or (None, None, None)
        yield Choice(
            placement=curve.placement, program=curve.program, benchmark=curve.benchmark,
            title=curve.title, size=size, arm=best, equal=equal, ratio=ratio, low=low, high=high,
        )  # fmt: skip


def _overall(choices: Sequence[Choice], arms: Sequence[str]) -> str:
    """Return the setting that is best, or not told from the best, at most sizes.

    Of several the one that gains most where it is best; of equals the first, so the baseline where
    nothing is better than it.
    """

    def score(arm: str) -> tuple[int, float]:
        among = sum(arm == one.arm or arm in one.equal for one in choices)
        gain = math.fsum(
            math.log(one.ratio)
            for one in choices
            if one.arm == arm and one.low and one.ratio and one.low > 1
        )
        return among, gain

    return max(arms, key=score)
