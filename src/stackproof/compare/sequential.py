"""Observations of an experiment that was looked at while it ran, to what each look decided.

Each look is taken anew on the launches that were there at the time, at the level that `looks`
gives it. What a look decided stays decided: launches that were made later, for the sake of others,
do not change it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from stackproof.compare import look_levels, looks
from stackproof.compare.judge import Observations, Rules
from stackproof.compare.model import (
    NULL_FAMILY_ERROR,
    TAIL_ERROR,
    ArmJudgement,
    Cell,
    Panel,
    Verdict,
)

Table = Mapping[tuple[str, str, str], Mapping[str, Observations]]
"""(placement, program, benchmark) -> arm -> observations."""


def rules_of_looks(rules: Rules, plan: tuple[int, ...]) -> Rules:
    """Return the rules of one look of several: at the level at which all make no more errors."""
    tail = look_levels.level(plan, rules.tail)
    return dataclasses.replace(
        rules,
        confidence=1 - 2 * tail,
        family_error=look_levels.level(plan, rules.family_error),
        null_family_error=look_levels.level(plan, NULL_FAMILY_ERROR),
        tail_error=look_levels.level(plan, TAIL_ERROR),
        # With fewer pairs than that no interval is as sure as it must be.
        minimum_launches=math.ceil(-math.log2(tail)),
    )


def replayed(
    table: Table,
    plan: tuple[int, ...],
    judged: Callable[[Table], tuple[Panel, ...]],
) -> tuple[Panel, ...]:
    """Return what all looks that were possible decided; before the first one nothing is decided."""
    last = max(
        (b for by_arm in table.values() for o in by_arm.values() for b in _blocks(o)), default=0
    )
    taken = looks.taken(plan, last) or (last,)
    found = judged(until(table, taken[0]))
    for look in taken[1:]:
        found = kept(found, judged(until(table, look)))
    return found


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


def kept(earlier: Sequence[Panel], later: Sequence[Panel]) -> tuple[Panel, ...]:
    """Return the later panels with what was decided earlier, medians and tails, as it was then."""
    before = {
        (panel.curve.key, judgement.arm, cell.size): cell
        for panel in earlier
        for judgement in panel.judgements
        for cell in judgement.cells
    }

    def as_decided(panel: Panel, judgement: ArmJudgement) -> ArmJudgement:
        cells = tuple(
            _kept(before.get((panel.curve.key, judgement.arm, cell.size)), cell)
            for cell in judgement.cells
        )
        return dataclasses.replace(judgement, cells=cells)

    return tuple(
        dataclasses.replace(
            panel, judgements=tuple(as_decided(panel, one) for one in panel.judgements)
        )
        for panel in later
    )


def _kept(earlier: Cell | None, later: Cell) -> Cell:
    if earlier is None:
        return later
    decided = {
        tail.statistic: tail for tail in earlier.tails if tail.verdict is not Verdict.INCONCLUSIVE
    }
    tails = {**{tail.statistic: tail for tail in later.tails}, **decided}
    cell = later if earlier.verdict is Verdict.INCONCLUSIVE else earlier
    return dataclasses.replace(cell, tails=tuple(tails.values()))
