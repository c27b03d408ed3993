"""Observations of an experiment that was looked at while it ran, to what each look decided.

Each look is taken again on the launches that were there at the time, at the level that `looks`
gives it. What a look decided stays decided: launches that were made later, for the sake of others,
do not change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from msgspec import field

from stackproof.compare import look_levels, looks
from stackproof.compare.judge import MEDIAN, Observations, Open, Part, Rules
from stackproof.compare.model import (
    NULL_FAMILY_ERROR,
    TAIL_ERROR,
    ArmJudgement,
    Cell,
    Tail,
    Verdict,
)
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
    tail = look_levels.level(plan, rules.tail)
    return replace(
        rules,
        confidence=1 - 2 * tail,
        family_error=look_levels.level(plan, rules.family_error),
        null_family_error=look_levels.level(plan, NULL_FAMILY_ERROR),
        tail_error=look_levels.level(plan, TAIL_ERROR),
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
    return {
        key: {
            arm: {
                size: {block: value for block, value in by_block.items() if block <= look}
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
