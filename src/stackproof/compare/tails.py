"""Samples of launches to a judgement of tails, beside that of the median.

The median of a launch's samples does not see one message of ten that takes four times as long. So
the mean and the 95th percentile of each launch are paired and tested as medians are, by the same
swaps of arms and with a margin of their own.

Errors. A cell PASSes in full when median, mean and percentile each do: an intersection-union test,
whose chance of PASS, where one of them is at its margin or beyond, is at most that of a single
test (R. L. Berger, Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24,
1982). A cell FAILs when the median does or the tail does: the tails of a curve are one family, all
sizes and both statistics together, which errs with the chance `TAIL_ERROR`, so that the chance of
a wrong FAIL on a curve is at most the sum of that and of the medians' (Bonferroni). The null arm's
tail is the noise floor of the others' and makes nothing FAIL, so that its error stays what it was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stackproof.compare import resampling
from stackproof.compare.collect import SHARES, STATISTICS, LaunchSamples
from stackproof.compare.judge import (
    ALL_OPEN,
    Contest,
    Estimate,
    Observations,
    Open,
    Rules,
    floors_of,
    launches_needed,
)
from stackproof.compare.model import ArmJudgement, Cell, Tail, Verdict, Why
from stackproof.compare.resampling import Floats, rounded
from stackproof.core.value import Value, replace

FAIL_BY_TAIL = "FAIL, by the tail"
TAIL_UNDECIDED = "PASS, tail undecided"
NO_TAIL_MEASURED = "PASS, no tail measured"
"""How a cell reads beside PASS, FAIL and INCONCLUSIVE."""

_FEWEST_OF_A_LAUNCH = 3
_FEWEST_SLOW = 2
"""So many samples of an arm must be expected beyond a percentile that launches alone have not."""

Samples = Mapping[int, Mapping[int, LaunchSamples]]
"""size -> block -> the samples of the launch."""


class _Rows(Value, kw_only=False):
    """The statistics that are judged, a row for each of a size: `ratios` are logarithms by block.

    `at` is the place of the size, `limits` the logarithms of the margins, `farther` those of the
    margins or the noise floors if these are larger. `sums` is the log ratio of means over all
    launches, NaN for a percentile.
    """

    statistics: tuple[str, ...]
    at: npt.NDArray[np.intp]
    margins: Floats
    floors: tuple[float | None, ...]
    ratios: Floats
    counts: npt.NDArray[np.intp]
    sums: Floats

    @property
    def limits(self) -> Floats:
        return np.log1p(-self.margins)

    @property
    def farther(self) -> Floats:
        return np.log1p(-np.maximum(self.margins, [floor or 0.0 for floor in self.floors]))


class _Asked(Value, kw_only=False):
    """The `rows` that are still open, whether this look is the last, and whether a tail FAILs."""

    rows: npt.NDArray[np.bool_]
    last: bool
    fails: bool


def judged(
    judgement: ArmJudgement,
    contest: Contest,
    samples: tuple[Samples, Samples],
    rules: Rules,
    floors: Mapping[str, Mapping[int, float]] | None,
    parts: Open = ALL_OPEN,
) -> ArmJudgement:
    """Return a judgement with that of the tails of baseline and challenger beside each cell.

    A statistic counts at a size where all pairs of the medians have it, so that no launch is left
    out for its tail; a percentile also where the samples of all launches together are enough.
    `floors` are the noise floors by statistic and size; None is for the null arm,
    of which no tail FAILs. Of a statistic that is not among the open `parts` the ratio is told.
    """
    cells = judgement.cells
    margins = rules.tail_margins(contest[0])
    pooled = _samples(cells, contest, samples)
    ratios = _completed(_log_ratios(cells, contest, samples), pooled)
    sums = [_sum_ratio(cell.size, contest, samples) for cell in cells]
    rows = _rows_of(cells, ratios, sums, margins, floors or {})
    if rows is None:
        return judgement
    tails: dict[int, list[Tail]] = {}
    asked = [
        (cells[at].size, name) in parts for at, name in zip(rows.at, rows.statistics, strict=True)
    ]
    kept = _Asked(np.array(asked, dtype=np.bool_), last=parts.last, fails=floors is not None)
    for at, tail in zip(rows.at, _tails(rows, pooled, rules, kept), strict=True):
        tails.setdefault(int(at), []).append(tail)
    found = (replace(cell, tails=tuple(tails.get(at, ()))) for at, cell in enumerate(cells))
    return replace(judgement, cells=tuple(found))


def _rows_of(
    cells: Sequence[Cell],
    ratios: Floats,
    sums: Sequence[float],
    margins: Mapping[str, float],
    floors: Mapping[str, Mapping[int, float]],
) -> _Rows | None:
    counts = np.isfinite(ratios).sum(axis=2)
    keys = [
        (name, at, margin, floors.get(name, {}).get(cell.size))
        for name, margin in margins.items()
        for at, cell in enumerate(cells)
        if cell.blocks and counts[STATISTICS.index(name), at] == cell.blocks
    ]
    if not keys:
        return None
    names, places, allowed, floor = zip(*keys, strict=True)
    chosen = ([STATISTICS.index(name) for name in names], list(places))
    means = [sums[at] if name == "mean" else math.nan for name, at, *_ in keys]
    return _Rows(
        names, np.array(places), np.array(allowed), floor, ratios[chosen], counts[chosen],
        np.array(means),
    )  # fmt: skip


def floors(null: ArmJudgement) -> dict[str, dict[int, float]]:
    """Return the noise floor of each statistic by size, of the null arm's tails."""
    return {
        statistic: floors_of(
            (cell.size, tail) for cell in null.cells for tail in cell.tails
            if tail.statistic == statistic
        )
        for statistic in STATISTICS
    }  # fmt: skip


def _blocks(contest: Contest) -> list[int]:
    _, *observed = contest
    return sorted({block for one in observed for seen in one.values() for block in seen})


def _log_ratios(
    cells: Sequence[Cell], contest: Contest, samples: tuple[Samples, Samples]
) -> Floats:
    """Return log ratios (`statistics x sizes x blocks`), above 0 where the challenger is better."""
    curve, *observed = contest
    blocks = _blocks(contest)
    nothing = (math.nan,) * len(STATISTICS)

    def logs(observations: Observations, launches: Samples) -> Floats:
        table = [
            [
                launches[cell.size][block].tail if block in observations.get(cell.size, {})
                else nothing
                for block in blocks
            ]
            for cell in cells
        ]  # fmt: skip
        return np.log(np.array(table, dtype=np.float64).reshape(len(cells), len(blocks), -1))

    baseline, challenger = map(logs, observed, samples)
    ratios = challenger - baseline if curve.higher_is_better else baseline - challenger
    return np.moveaxis(ratios, 2, 0)


def _completed(ratios: Floats, samples: Floats) -> Floats:
    """Return ratios with 0 for percentiles that launches alone are too short to have.

    Only the samples of all launches then speak, and these must be enough to have a slow end.
    """
    there = np.isfinite(samples).sum(axis=3)
    short = np.isnan(ratios) & (there.min(axis=0) >= _FEWEST_OF_A_LAUNCH)
    for name, share in SHARES.items():
        enough = there.sum(axis=2).min(axis=0) * (100 - share) >= 100 * _FEWEST_SLOW
        short[STATISTICS.index(name)] &= enough[:, None]
    short[STATISTICS.index("mean")] = False
    return np.where(short, 0.0, ratios)


def _sum_ratio(size: int, contest: Contest, samples: tuple[Samples, Samples]) -> float:
    """Return the log ratio of the means over all launches, NaN where launches have none.

    The typical ratio of two launches does not see a message that is slow in one launch of three.
    The block in which the arms differ most is left out, so that one wild launch decides nothing.
    """
    curve, *observed = contest
    medians = [arm.get(size, {}) for arm in observed]
    pairs = []
    for block in medians[0].keys() & medians[1].keys():
        level = math.sqrt(medians[0][block] * medians[1][block])
        pairs.append([launches[size][block].tail[0] / level for launches in samples])
    pairs = sorted(pairs, key=lambda pair: abs(math.log(pair[1] / pair[0])))[:-1]
    if not pairs:
        return math.nan
    baseline, challenger = map(math.fsum, zip(*pairs, strict=True))
    return math.log(challenger / baseline if curve.higher_is_better else baseline / challenger)


def _samples(cells: Sequence[Cell], contest: Contest, samples: tuple[Samples, Samples]) -> Floats:
    """Return all samples of complete pairs as `resampling.slow_scores` takes them."""
    curve, base, other = contest
    blocks = _blocks(contest)
    pairs = [
        [
            launches[cell.size][block].values
            if block in base.get(cell.size, {}) and block in other.get(cell.size, {})
            else ()
            for cell in cells
            for block in blocks
        ]
        for launches in samples
    ]
    most = max((len(values) for arm in pairs for values in arm), default=0)
    padded = [[values + (math.nan,) * (most - len(values)) for values in arm] for arm in pairs]
    logs = np.log(np.array(padded, dtype=np.float64)).reshape(2, len(cells), len(blocks), most)
    return -logs if curve.higher_is_better else logs


def _tails(rows: _Rows, samples: Floats, rules: Rules, asked: _Asked) -> list[Tail]:
    """Return the judgements of all rows; which of them FAIL is decided by all as one family."""
    level = max(rules.tail, 0.5 ** float(np.max(rows.counts)))
    limits, farther, centers = rows.limits, rows.farther, _centers(rows, samples)
    enough = rows.counts >= rules.needed
    asks = asked.rows & enough
    within, slower = _surely_better(rows, samples, level, asks), centers < limits
    beyond = np.zeros_like(asks)
    if asked.fails and asks.any():
        beyond = enough & (resampling.below(rows.ratios, farther, level) | (centers < farther))
    if rules.both_ways:
        turned = replace(rows, ratios=-rows.ratios)
        within &= _surely_better(turned, samples[::-1], level, asks & within)
        slower |= -centers < limits
        if asked.fails and asks.any():
            more = resampling.below(turned.ratios, farther, level) | (-centers < farther)
            beyond |= enough & more
    p_values = np.full(len(centers), np.nan)
    if beyond.any() and (asked.last or (asks & (within | beyond)).any()):
        p_values[enough] = _p_values(rows, samples, enough, both_ways=rules.both_ways)
    failed = asks & beyond & (p_values <= rules.tail_error)
    passed = within & asks & ~failed
    shown = np.where(passed | failed | np.isnan(rows.sums), centers, rows.sums)
    slower |= shown < limits
    if rules.both_ways:
        slower |= -shown < limits
    ends = _ends(rows, rules, asked.rows & ~passed & ~failed, slower) if asked.last else {}
    found = []
    for row in range(len(centers)):
        why = Why.CHANCE if beyond[row] else Why.NOISE if slower[row] else Why.INTERVAL
        verdict = (
            Verdict.FAIL if failed[row] else Verdict.PASS if passed[row] else Verdict.INCONCLUSIVE
        )
        estimate = Estimate(
            0, int(rows.counts[row]), float(shown[row]), *ends.get(row, (None, None))
        )
        answer = (verdict, why if enough[row] else Why.TOO_FEW)
        found.append(_tail(estimate, rows, row, (*answer, float(p_values[row])), rules))
    return found


def _surely_better(
    rows: _Rows, samples: Floats, level: float, asks: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the rows, of those asked for, proven not to be worse by the margin.

    A percentile is proven by all samples.
    """
    found = np.zeros_like(asks)
    if not asks.any():
        return found
    found[asks] = resampling.below(-rows.ratios[asks], -rows.limits[asks], level)
    for mine, share in _percentiles(rows, samples):
        here = mine[asks[mine]]
        if here.size:
            scores = resampling.slow_scores(samples[:, rows.at[here]], -rows.limits[here], share)
            found[here] = resampling.above_zero(-scores, level)
    return found


def _percentiles(rows: _Rows, samples: Floats) -> Iterator[tuple[npt.NDArray[np.intp], int]]:
    """Yield the rows of each percentile that have samples, and not one printed number a launch."""
    several = np.isfinite(samples).sum(axis=3).max(axis=(0, 2)) > 1
    for name, share in SHARES.items():
        mine = np.array([one == name for one in rows.statistics])
        here = np.flatnonzero(mine & several[rows.at])
        if here.size:
            yield here, share


def _centers(rows: _Rows, samples: Floats) -> Floats:
    """Return the log ratios: of means the typical one, of percentiles that of all samples."""
    found = resampling.centers(rows.ratios)
    for here, share in _percentiles(rows, samples):
        found[here] = resampling.percentile_ratios(samples[:, rows.at[here]], share)
    return found


def _p_values(
    rows: _Rows, samples: Floats, enough: npt.NDArray[np.bool_], *, both_ways: bool
) -> Floats:
    """Return the adjusted p-values of "not worse than the FAIL margin", or also "nor better".

    A percentile is tested by that of each launch, and by the slowest samples of all launches: the
    smaller p-value is the row's, and the family holds both.
    """
    owner, scores = [], []
    for turned in (1.0, -1.0) if both_ways else (1.0,):
        owner.append(np.flatnonzero(enough))
        scores.append(resampling.scores_below(turned * rows.ratios[enough], rows.farther[enough]))
        arms = samples if turned > 0 else samples[::-1]
        for mine, share in _percentiles(rows, samples):
            here = mine[enough[mine]]
            owner.append(here)
            scores.append(
                resampling.slow_scores(arms[:, rows.at[here]], -rows.farther[here], share)
            )
    p_values = resampling.stepdown(np.vstack(scores))
    found = np.full(len(rows.ratios), np.inf)
    np.minimum.at(found, np.concatenate(owner), p_values)
    return found[enough]


def _ends(
    rows: _Rows,
    rules: Rules,
    undecided: npt.NDArray[np.bool_],
    slower: npt.NDArray[np.bool_],
) -> dict[int, tuple[float, float]]:
    """Return the intervals that a number of launches is estimated by: of what must be decided."""
    named = np.array([name in rules.named_tails for name in rows.statistics])
    chosen = np.flatnonzero((named | slower) & undecided)
    if not chosen.size:
        return {}
    ends = resampling.intervals(rows.ratios[chosen], rules.tail)
    return {
        int(row): (float(low), float(high)) for row, low, high in zip(chosen, *ends, strict=True)
    }


def _tail(
    estimate: Estimate, rows: _Rows, row: int, answer: tuple[Verdict, Why, float], rules: Rules
) -> Tail:
    verdict, why, p = answer
    margin, floor = float(rows.margins[row]), rows.floors[row]
    asked = verdict is Verdict.INCONCLUSIVE
    return Tail(
        statistic=rows.statistics[row],
        blocks=estimate.blocks,
        verdict=verdict,
        margin=margin,
        why=why if asked else None,
        ratio=None if estimate.center is None else rounded(math.exp(estimate.center)),
        p=None if math.isnan(p) else rounded(p),
        floor=None if floor is None else rounded(floor),
        launches_needed=(
            launches_needed(estimate, margin, max(margin, floor or 0.0), rules, 1)
            if asked and estimate.low is not None
            else None
        ),
    )


def answered(
    cell: Cell,
    judged_tails: Collection[str],
    named: Collection[str],
    *,
    both_ways: bool = False,
) -> Cell:
    """Return a cell with the answer that median and tails give together, and its words.

    `judged_tails` are the statistics that should be there, `named` those that must be decided. So
    must one whose estimate lies beyond its margin: nobody may read that as a PASS.
    """
    there = {tail.statistic for tail in cell.tails}
    missing = set(judged_tails) - there
    open_tails = [tail for tail in cell.tails if tail.verdict is Verdict.INCONCLUSIVE]
    if any(tail.verdict is Verdict.FAIL for tail in cell.tails):
        why = None if cell.verdict is Verdict.FAIL else Why.TAIL
        words = FAIL_BY_TAIL if why else "FAIL"
        return replace(cell, verdict=Verdict.FAIL, why=why, words=words, launches_needed=None)
    if cell.verdict is not Verdict.PASS:
        return replace(cell, words=cell.verdict.value)
    beyond = [tail for tail in open_tails if _is_beyond(tail, both_ways=both_ways)]
    asked = [tail for tail in open_tails if tail.statistic in named or tail in beyond]
    if asked:
        needs = [tail.launches_needed for tail in asked if tail.launches_needed is not None]
        why = Why.TAIL_BEYOND if beyond else Why.TAIL
        return _unanswered(cell, why, max(needs) if len(needs) == len(asked) else None)
    if missing & set(named):
        return _unanswered(cell, Why.NO_TAIL, None)
    said = TAIL_UNDECIDED if open_tails else NO_TAIL_MEASURED if missing else "PASS"
    return replace(cell, words=said)


def _is_beyond(tail: Tail, *, both_ways: bool) -> bool:
    if tail.ratio is None:
        return False
    worst = min(tail.ratio, 1 / tail.ratio) if both_ways else tail.ratio
    return worst < 1 - tail.margin


def _unanswered(cell: Cell, why: Why, needed: int | None) -> Cell:
    return replace(
        cell, verdict=Verdict.INCONCLUSIVE, why=why, words="INCONCLUSIVE", launches_needed=needed
    )


def pass_words(words: Iterable[str]) -> str:
    """Return the words of a verdict whose parts all PASS, from the words of the parts."""
    said = set(words)
    if TAIL_UNDECIDED in said:
        return TAIL_UNDECIDED
    return NO_TAIL_MEASURED if said == {NO_TAIL_MEASURED} else "PASS"
