"""Judged curves to which arm is best where, in words: for arms that took different paths.

An arm is best at a size when its interval lies above that of every other arm, and above 1, where
the baseline stands. Ratios are all to the same baseline, so intervals that do not overlap differ by
more than either is unsure of; where the arms' own difference is not larger than what the baseline
shows against itself, nobody is best either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stackproof.compare.model import Best, Cell, Panel, Ranking, Why
from stackproof.core.numbers import ranges_text
from stackproof.core.value import Value


class _Standing(Value, kw_only=False):
    """One arm at one size: ratio to the baseline with its interval, and the noise there."""

    arm: str
    ratio: float
    low: float
    high: float
    floor: float = 0.0


def rank(panels: Sequence[Panel], baseline: str, null: str | None) -> tuple[Ranking, ...]:
    """Return the ranking of each placement; empty where no two arms took different paths."""
    if not several_paths(panels, null):
        return ()
    found = []
    for placement in dict.fromkeys(panel.curve.placement for panel in panels):
        here = [panel for panel in panels if panel.curve.placement == placement]
        arms = {curve.arm for panel in here for curve in panel.arms} - {null}
        found.append(_ranking(placement, here, baseline, frozenset(arms)))
    return tuple(found)


def several_paths(panels: Sequence[Panel], null: str | None) -> bool:
    """Return whether arms, other than the null arm, took different paths on one curve."""
    return any(
        len({curve.transport for curve in panel.arms if curve.arm != null}) > 1 for panel in panels
    )


def arm_text(arm: str, transport: str) -> str:
    """Return an arm with its path: `openmpi (lnx)`."""
    return f"{arm} ({transport})" if transport else arm


def _ranking(
    placement: str, panels: Sequence[Panel], baseline: str, arms: frozenset[str]
) -> Ranking:
    best: list[Best] = []
    points = few = 0
    for panel in panels:
        won: dict[str, list[int]] = {}
        for size, standings in _by_size(panel, baseline, arms).items():
            points += 1
            few += standings is None
            winner = _winner(standings or ())
            if winner is not None:
                won.setdefault(winner, []).append(size)
        best += [
            Best(
                program=panel.curve.program,
                benchmark=panel.curve.benchmark,
                arm=arm,
                transport=panel.transport(arm),
                sizes=tuple(sizes),
            )
            for arm, sizes in sorted(won.items())
        ]
    open_points = points - sum(len(one.sizes) for one in best)
    return Ranking(
        placement=placement,
        best=tuple(best),
        points=points,
        open_points=open_points,
        sentence=_sentence(placement, panels, best, (points, open_points, few)),
    )


def _by_size(
    panel: Panel, baseline: str, arms: frozenset[str]
) -> Mapping[int, tuple[_Standing, ...] | None]:
    """Return the arms at each size at which there are two or more; None where one is not sure."""
    cells: dict[int, list[tuple[str, Cell]]] = {}
    for judgement in panel.judgements:
        if judgement.arm in arms:
            for cell in judgement.cells:
                if cell.why is not Why.NO_PAIRS:
                    cells.setdefault(cell.size, []).append((judgement.arm, cell))
    return {size: _standings(cells[size], baseline) for size in sorted(cells)}


def _standings(cells: Sequence[tuple[str, Cell]], baseline: str) -> tuple[_Standing, ...] | None:
    found = [_Standing(baseline, 1.0, 1.0, 1.0)]
    for arm, cell in cells:
        if cell.why is Why.TOO_FEW or cell.ratio is None or cell.low is None or cell.high is None:
            return None
        found.append(_Standing(arm, cell.ratio, cell.low, cell.high, cell.floor or 0.0))
    return tuple(found)


def _winner(standings: Sequence[_Standing]) -> str | None:
    """Return the arm whose interval lies above all others, by more than the noise."""
    if len(standings) < 2:
        return None
    first, *others = sorted(standings, key=lambda one: one.ratio, reverse=True)
    noise = max(one.floor for one in standings)
    clear = all(
        first.low > other.high and math.log(first.ratio / other.ratio) > -math.log1p(-noise)
        for other in others
    )
    return first.arm if clear else None


def _sentence(
    placement: str, panels: Sequence[Panel], best: Sequence[Best], counts: tuple[int, int, int]
) -> str:
    """Return `at intra-node a (shm) is best in latency at 8 B to 1 KiB; …`."""
    points, open_points, few = counts
    if not points:
        return f"At {placement} only one path was measured."
    if few == points:
        return f"At {placement} there are too few launches to tell which path is best."
    curves = {(panel.curve.program, panel.curve.benchmark): panel for panel in panels}
    programs = {panel.curve.program for panel in panels}
    texts: dict[str, list[str]] = {}
    for one in best:
        panel = curves[one.program, one.benchmark]
        sizes = [cell.size for judgement in panel.judgements for cell in judgement.cells]
        title = panel.curve.title + (f" ({one.program})" if len(programs) > 1 else "")
        at = f" at {ranges_text(one.sizes, sizes)}" if panel.curve.sized else ""
        texts.setdefault(arm_text(one.arm, one.transport), []).append(f"{title}{at}")
    parts = [f"{who} is best in {_listed(where)}" for who, where in texts.items()]
    if open_points == points:
        parts = [f"no path stands out of intervals and noise at any of {points} points"]
    elif open_points:
        parts.append(f"at {open_points} of {points} points none stands out of intervals and noise")
    return f"At {placement} {'; '.join(parts)}."


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
