"""Launches to those in which something else was at a rank's CPU, and verdicts to those that hold.

A busy core slows an MPI that waits for it more than one that does not, so that arms which are equal
look different; the null arm, which waits as the baseline does, says nothing of it. No bound on the
effect is known, so nothing is corrected: what undisturbed launches do not bear out is not said. As
a launch only becomes slower by it, it may explain that an arm is slower where it was at that arm,
and that one is not slower where it was at the baseline. A disturbance takes a verdict away and
never makes one.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from stackproof.compare.model import ENOUGH_CALM, ArmJudgement, Cell, Tail, Verdict, Why
from stackproof.core.value import Value, replace
from stackproof.results.measurement import Disturbance, Measurement, RankFacts

if TYPE_CHECKING:  # a bench that is only planned may not wait for numpy
    from stackproof.compare.sequential import Judgements, Wanted

LOST = 0.05
"""Share of a rank's time from which on its CPU's other work counts."""

SWITCHES_PER_S = 20.0
"""The same, where nothing but switches was counted: a quiet core has a few each second."""

SLOWED = 0.10
"""How far below the others of its block a rank's frequency may be."""

_Part = TypeVar("_Part", Cell, Tail)


class Disturbed(Value):
    """A launch in which a rank had not its CPU to itself, and how that was seen."""

    arm: str
    block: int
    placement: str
    program: str
    text: str


def disturbed(measurements: Iterable[Measurement]) -> tuple[Disturbed, ...]:
    """Return the launches in which something else was at work, with the rank that lost most."""
    found: list[Disturbed] = []
    blocks: dict[tuple[str, str, int], list[Measurement]] = defaultdict(list)
    for one in measurements:
        if one.case.placement.timed:
            blocks[one.case.placement.name, one.case.program, one.block].append(one)
    for (placement, program, block), launches in blocks.items():
        usual = _frequencies(launches)
        for one in launches:
            text = _worst(one.output.ranks) or _slowed(one.output.ranks, usual)
            if text:
                found.append(
                    Disturbed(
                        arm=one.arm, block=block, placement=placement, program=program, text=text
                    )
                )
    return tuple(found)


def untold(measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Return the programs whose ranks say nothing of themselves, as IMB-MPI1's."""
    told: dict[str, bool] = {}
    for one in measurements:
        if one.usable and one.case.placement.timed:
            program = one.case.program
            told[program] = told.get(program, False) or bool(one.output.ranks)
    return tuple(program for program, known in told.items() if not known)


def lost(seen: Disturbance) -> float | None:
    """Return the share of its time that a rank lost to others; None when nobody could tell.

    It must have waited, and others must have run: a rank that waits for a thread of its own lost
    nothing to others, and what runs while a rank sleeps takes nothing from it.
    """
    known = []
    if seen.run_queue_wait_s is not None and seen.wall_s:
        known.append(seen.run_queue_wait_s / seen.wall_s)
    if seen.other_load is not None:
        known.append(seen.other_load)
    return min(known) if known else None


def _worst(ranks: Sequence[RankFacts]) -> str:
    """Return what the rank lost that lost most, empty when none lost enough to count."""
    shares: list[tuple[float, str]] = []
    for rank in ranks:
        seen = rank.disturbance
        if seen is None:
            continue
        where = f"rank {rank.rank} on {rank.host}"
        where += "" if rank.cpu is None else f", CPU {rank.cpu}"
        share = lost(seen)
        if share is not None:
            if share >= LOST:
                shares.append((share, f"{where}, lost {share:.0%} of its time to other programs"))
        elif seen.involuntary_switches is not None and seen.wall_s:
            rate = seen.involuntary_switches / seen.wall_s
            if rate >= SWITCHES_PER_S:
                text = f"{where}, had to give its CPU away {rate:.0f} times a second"
                shares.append((0.0, text))
    return max(shares)[1] if shares else ""


def _frequencies(launches: Sequence[Measurement]) -> Mapping[tuple[str, int | None], float]:
    """Return the usual frequency of each CPU over the launches of a block."""
    seen: dict[tuple[str, int | None], list[float]] = defaultdict(list)
    for one in launches:
        for rank in one.output.ranks:
            if rank.disturbance and rank.disturbance.frequency_mhz:
                seen[rank.host, rank.cpu].append(rank.disturbance.frequency_mhz)
    return {place: statistics.median(values) for place, values in seen.items()}


def _slowed(ranks: Sequence[RankFacts], usual: Mapping[tuple[str, int | None], float]) -> str:
    for rank in ranks:
        mhz = rank.disturbance.frequency_mhz if rank.disturbance else None
        others = usual.get((rank.host, rank.cpu))
        if mhz and others and mhz < (1 - SLOWED) * others:
            return (
                f"rank {rank.rank} on {rank.host} ran at {mhz:.0f} MHz, others of the block at "
                f"{others:.0f}"
            )
    return ""


def doubtful(judgements: Judgements, *, slower: bool) -> Wanted:
    """Return the parts that say that an arm is `slower`, or those that say that it is not."""
    from stackproof.compare.sequential import parts_of  # noqa: PLC0415 - as above

    found = {}
    for key, judgement in judgements.items():
        parts = frozenset(
            name
            for name, part in parts_of(judgement)
            if part.verdict is not Verdict.INCONCLUSIVE and _is_slower(part) is slower
        )
        if parts:
            found[key] = parts
    return found


def withheld(
    judgements: Judgements, arms_calm: Judgements, baseline_calm: Judgements
) -> Judgements:
    """Return judgements without the verdicts that launches without disturbance do not bear out.

    `arms_calm` is judged without disturbed launches of any arm but the baseline, `baseline_calm`
    without those of the baseline; what is in neither was not disturbed. That an arm is slower must
    hold in the first, that it is as fast or faster in the second. A verdict stays when these
    launches alone come to it, or when they are most of the launches and their ratio is on its side.
    """
    found = {}
    for key, judgement in judgements.items():
        slower, faster = (
            {cell.size: cell for cell in calm.get(key, judgement).cells}
            for calm in (arms_calm, baseline_calm)
        )
        cells = []
        for cell in judgement.cells:
            calm = (slower.get(cell.size), faster.get(cell.size))
            tails = tuple(
                _borne_out(tail, *(_tail_of(one, tail.statistic) for one in calm))
                for tail in cell.tails
            )
            cells.append(replace(_borne_out(cell, *calm), tails=tails))
        found[key] = ArmJudgement(arm=judgement.arm, cells=tuple(cells))
    return found


def _is_slower(part: Cell | Tail) -> bool:
    return part.verdict is Verdict.FAIL and (part.ratio is None or part.ratio < 1)


def _tail_of(cell: Cell | None, statistic: str) -> Tail | None:
    tails = cell.tails if cell else ()
    return next((tail for tail in tails if tail.statistic == statistic), None)


def _borne_out(cell: _Part, slower: _Part | None, faster: _Part | None) -> _Part:
    """Return a cell, or a tail of it, undecided where calm launches do not bear it out."""
    if cell.verdict is Verdict.INCONCLUSIVE:
        return cell
    clean = slower if _is_slower(cell) else faster
    if clean is not None and clean.ratio is not None:
        if clean.blocks == cell.blocks or clean.verdict is cell.verdict:
            return cell
        passes = clean.ratio >= 1 - cell.margin
        same = passes is (cell.verdict is Verdict.PASS)
        if same and clean.blocks >= ENOUGH_CALM * cell.blocks:
            return cell
    return replace(cell, verdict=Verdict.INCONCLUSIVE, why=Why.DISTURBED, launches_needed=None)
