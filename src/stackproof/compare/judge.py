"""Observations of two arms on one curve to a judgement: a cell for every size, and the regimes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import field

from stackproof.compare import resampling
from stackproof.compare.collect import LaunchSamples, shown_tails
from stackproof.compare.margins import margins_of_tails, named_tails
from stackproof.compare.model import (
    NULL_FAMILY_ERROR,
    TAIL_ERROR,
    ArmCurve,
    ArmJudgement,
    Cell,
    Curve,
    Fit,
    Point,
    Regime,
    Tail,
    Verdict,
    Why,
)
from stackproof.compare.resampling import Floats, rounded
from stackproof.core.value import Value, replace

Observations = Mapping[int, Mapping[int, float]]
"""size -> block -> the launch's median, in the curve's unit."""

FEWEST_BLOCKS = 5
"""With fewer pairs no sign pattern is rarer than 1 in 16, so nothing can be judged."""

_MOST_LAUNCHES = 200
"""A larger estimate of launches needed is not advice any more."""

# Ranges in which different costs rule: per message, protocol change, per byte (bytes, inclusive).
REGIMES: tuple[tuple[str, int, int], ...] = (
    ("latency regime, up to 8 KiB", 0, 8192),
    ("transition, over 8 KiB to 128 KiB", 8193, 131072),
    ("bandwidth regime, from 256 KiB", 262144, 1 << 62),
)

# Hockney's line is fitted where one cost dominates: T0 below, 1/B above.
_SMALL_BYTES = 192
_LARGE_BYTES = 262144
_FITTED = frozenset({"latency", "bandwidth", "bibandwidth"})


class Rules(Value):
    """What to judge by; `floor` is the noise floor by size, empty without a null arm.

    `both_ways` is for arms that must be neither worse nor better than the baseline: the null arm,
    and every challenger where it is asked whether they are equal.
    """

    margins: Mapping[str, float]
    confidence: float
    family_error: float
    minimum_launches: int
    floor: Mapping[int, float] = field(default_factory=dict)
    null_family_error: float = NULL_FAMILY_ERROR
    tail_error: float = TAIL_ERROR
    both_ways: bool = False

    @property
    def tail(self) -> float:
        """Return the chance that the truth lies beyond one end of an interval."""
        return (1 - self.confidence) / 2

    @property
    def needed(self) -> int:
        """Return how many pairs a cell must have to be judged."""
        return max(self.minimum_launches, FEWEST_BLOCKS)

    def fail_margin(self, curve: Curve, size: int) -> float:
        """Return the slow-down beyond which a size FAILs: the margin, or the noise if larger."""
        return max(self.margins[curve.kind], self.floor.get(size, 0.0))

    def tail_margins(self, curve: Curve) -> dict[str, float]:
        """Return the margin of each statistic of the tail that is judged."""
        return margins_of_tails(self.margins, curve.kind)

    @property
    def named_tails(self) -> frozenset[str]:
        """Return the statistics of the tail that must be decided."""
        return named_tails(self.margins)


MEDIAN = "median"
Part = tuple[int, str]
"""What is judged of an arm on a curve: a size with `MEDIAN`, or with a statistic of the tail."""


class Open(Value, kw_only=False):
    """The parts that are still to be judged: those `wanted`, or all, that nothing `decided`.

    After the `last` look, what stays undecided is told in full.
    """

    decided: frozenset[Part] = frozenset()
    wanted: frozenset[Part] | None = None
    last: bool = True

    def __contains__(self, part: Part) -> bool:
        """Return true for a part that is still to be judged."""
        return part not in self.decided and (self.wanted is None or part in self.wanted)


ALL_OPEN = Open()


def floors_of(null: Iterable[tuple[int, Cell | Tail]]) -> dict[int, float]:
    """Return the noise floor by size, as the fraction by which the null arm seems slower.

    It is the largest difference that the baseline shows against itself at this size or its two
    neighbours, so that one size which agreed by luck does not hide the noise around it. The
    difference counts in both directions: which of the two came out ahead is chance.
    """
    seen = [
        (size, abs(math.log(one.ratio)))
        for size, one in null
        if one.ratio is not None and one.blocks >= FEWEST_BLOCKS
    ]
    return {
        size: 1 - math.exp(-max(log for _, log in seen[max(at - 1, 0) : at + 2]))
        for at, (size, _) in enumerate(seen)
    }


class Pairs(Value, kw_only=False):
    """Log ratios of two arms (`sizes x blocks`, NaN where the pair is not complete).

    They are above 0 where the challenger is better.
    """

    sizes: tuple[int, ...]
    blocks: tuple[int, ...]
    ratios: Floats

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Return which pairs are there (`sizes x blocks`)."""
        return np.isfinite(self.ratios)


Contest = tuple[Curve, Observations, Observations]
"""A curve with the observations of the baseline and of a challenger."""


def family_p_values(contests: Sequence[Contest], rules: Rules) -> list[dict[int, float]]:
    """Return the adjusted p-values by size for each contest, all of them as one family.

    The hypothesis is "not worse than the FAIL margin", and with `both_ways` "not better" by as
    much too. Sizes with too few pairs have none.
    """
    each = [paired(contest) for contest in contests]
    if not each:
        return []
    blocks = sorted({block for pairs in each for block in pairs.blocks})
    rows, limits = [], []
    for (curve, _, _), pairs in zip(contests, each, strict=True):
        ratios = np.where(pairs.complete.sum(axis=1)[:, None] < rules.needed, np.nan, pairs.ratios)
        aligned = np.full((len(pairs.sizes), len(blocks)), np.nan)
        aligned[:, np.searchsorted(blocks, pairs.blocks)] = ratios
        rows.append(aligned)
        limits += [math.log1p(-rules.fail_margin(curve, size)) for size in pairs.sizes]
    table, limit = np.vstack(rows), np.array(limits)
    if rules.both_ways:
        both = resampling.stepdown_p_values(np.vstack([table, -table]), np.tile(limit, 2))
        p_values = iter(both.reshape(2, -1).min(axis=0))
    else:
        p_values = iter(resampling.stepdown_p_values(table, limit))
    found = [{size: float(next(p_values)) for size in pairs.sizes} for pairs in each]
    return [{size: p for size, p in one.items() if not math.isnan(p)} for one in found]


def judge(
    arm: str,
    contest: Contest,
    rules: Rules,
    p_values: Callable[[], Mapping[int, float]] | None = None,
    parts: Open = ALL_OPEN,
) -> ArmJudgement:
    """Return the judgement of `arm` on one curve.

    `p_values` gives those of a larger family than this curve; None makes the curve the family. Of a
    size that is not among the open `parts` the ratio is told and nothing is decided.
    """
    curve = contest[0]
    estimates = _estimates(paired(contest), rules, parts)
    floored = [(rules.margins[curve.kind], rules.floor.get(one.size)) for one in estimates]
    each = list(zip(estimates, floored, strict=True))
    known: Mapping[int, float] = {}
    if any(_asks_chance(one, margins, rules, last=parts.last) for one, margins in each):
        known = family_p_values([contest], rules)[0] if p_values is None else p_values()
    return ArmJudgement(
        arm=arm, cells=tuple(_cell(one, margins, rules, known) for one, margins in each)
    )


def paired(contest: Contest) -> Pairs:
    """Return the log ratios of a contest by size and block."""
    curve, baseline, challenger = contest
    sizes = tuple(sorted({*baseline, *challenger}))
    blocks = sorted({block for one in (*baseline.values(), *challenger.values()) for block in one})

    def matrix(observations: Observations) -> Floats:
        rows = [
            [observations.get(size, {}).get(block, math.nan) for block in blocks] for size in sizes
        ]
        return np.array(rows, dtype=np.float64)

    ratios = np.log(matrix(challenger)) - np.log(matrix(baseline))
    return Pairs(
        sizes=sizes,
        blocks=tuple(blocks),
        ratios=ratios if curve.higher_is_better else -ratios,
    )


class Estimate(Value, kw_only=False):
    """What is known of one cell: the log ratio and its interval, None where there are no pairs."""

    size: int
    blocks: int
    center: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def turned(self) -> Estimate:
        """Return the same with the arms' names swapped where the challenger is the better one."""
        if self.center is None or self.center <= 0:
            return self
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return replace(self, center=-self.center, low=low, high=high)


def _estimates(pairs: Pairs, rules: Rules, parts: Open) -> list[Estimate]:
    """Return the estimates of every size, with intervals of those that are open."""
    counts = pairs.complete.sum(axis=1)
    some = np.flatnonzero(counts)
    located = np.full(len(counts), np.nan)
    located[some] = resampling.centers(pairs.ratios[some])
    # One launch says nothing of another.
    asked = [row for row in some if counts[row] > 1 and (pairs.sizes[row], MEDIAN) in parts]
    ends: dict[int, tuple[float, float]] = {}
    if asked:
        # All rows, so that no bit of an end depends on which of the others are open.
        lows, highs = resampling.intervals(pairs.ratios[some], rules.tail, located[some])
        every = dict(zip(some, zip(lows.tolist(), highs.tolist(), strict=True), strict=True))
        ends = {int(row): every[row] for row in asked}
    return [
        Estimate(size, 0)
        if not counts[row]
        else Estimate(size, int(counts[row]), float(located[row]), *ends.get(row, (None, None)))
        for row, size in enumerate(pairs.sizes)
    ]


def _asks_chance(
    estimate: Estimate, margins: tuple[float, float | None], rules: Rules, *, last: bool
) -> bool:
    """Return true where a p-value is of use: where a size may be decided, or is open at the end."""
    if estimate.low is None:
        return False
    verdict, why = _decide(estimate, margins, rules, None)
    return last or verdict is Verdict.PASS or why is Why.CHANCE


def _cell(
    estimate: Estimate,
    margins: tuple[float, float | None],
    rules: Rules,
    p_values: Mapping[int, float],
) -> Cell:
    """Return the judgement of one size; `p_values` are of those that are judged together."""
    margin, floor = margins
    p = p_values.get(estimate.size)
    verdict, why = _decide(estimate, margins, rules, p)
    looked = estimate.turned if rules.both_ways else estimate
    return Cell(
        size=estimate.size,
        blocks=estimate.blocks,
        verdict=verdict,
        why=why,
        margin=margin,
        ratio=_exp(estimate.center),
        low=_exp(estimate.low),
        high=_exp(estimate.high),
        p=None if p is None else rounded(p),
        floor=None if floor is None else rounded(floor),
        launches_needed=(
            None
            if verdict is not Verdict.INCONCLUSIVE
            else launches_needed(looked, margin, max(margin, floor or 0.0), rules, len(p_values))
        ),
    )


def _decide(
    estimate: Estimate, margins: tuple[float, float | None], rules: Rules, p: float | None
) -> tuple[Verdict, Why | None]:
    margin, floor = margins
    seen = estimate.turned if rules.both_ways else estimate
    if seen.center is None:
        return Verdict.INCONCLUSIVE, Why.NO_PAIRS
    if seen.blocks < rules.needed or seen.low is None or seen.high is None:
        return Verdict.INCONCLUSIVE, Why.TOO_FEW
    worst = min(seen.low, -seen.high) if rules.both_ways else seen.low
    if worst >= math.log1p(-margin):
        return Verdict.PASS, None
    why = None
    if seen.high >= math.log1p(-margin):
        why = Why.INTERVAL
    elif seen.high >= math.log1p(-max(margin, floor or 0.0)):
        why = Why.NOISE
    elif p is None or p > rules.family_error:
        why = Why.CHANCE
    return (Verdict.FAIL if why is None else Verdict.INCONCLUSIVE), why


def launches_needed(
    estimate: Estimate, margin: float, fail_margin: float, rules: Rules, sizes: int
) -> int | None:
    """Return how many launches per arm would settle a cell if the estimate stays where it is.

    An interval's half-width shrinks with the square root of the number of launches.
    """
    blocks = estimate.blocks
    if estimate.center is None or estimate.low is None or estimate.high is None:
        return rules.needed
    if blocks < rules.needed:
        return rules.needed
    if estimate.center > math.log1p(-margin):
        half = estimate.center - estimate.low
        distance = estimate.center - math.log1p(-margin)
    else:
        # A FAIL must hold for all sizes of the curve together, so its interval is a wider one.
        share = resampling.normal_quantile(rules.family_error / max(sizes, 1))
        half = (estimate.high - estimate.center) * max(
            1.0, share / resampling.normal_quantile(rules.tail)
        )
        distance = math.log1p(-fail_margin) - estimate.center
    if distance <= 0 or half <= 0:
        return None
    needed = max(math.ceil(blocks * (half / distance) ** 2), blocks + 1)
    return needed if needed <= _MOST_LAUNCHES else None


def regimes_of(contest: Contest, rules: Rules) -> tuple[Regime, ...]:
    """Return the geometric mean of the ratios in each range of sizes, over blocks they share."""
    if not contest[0].sized:
        return ()
    pairs = paired(contest)
    named: list[tuple[str, list[int]]] = []
    means: list[Floats] = []
    for name, smallest, largest in REGIMES:
        rows = [row for row, size in enumerate(pairs.sizes) if smallest <= size <= largest]
        if rows:
            mean = pairs.ratios[rows].mean(axis=0)
            if np.isfinite(mean).sum() >= FEWEST_BLOCKS:
                named.append((name, rows))
                means.append(mean)
    if not named:
        return ()
    table = np.array(means)
    centers = resampling.centers(table)
    ends = (centers, *resampling.intervals(table, rules.tail, centers))
    return tuple(
        Regime(
            name=name,
            sizes=tuple(pairs.sizes[row] for row in rows),
            ratio=rounded(math.exp(ratio)),
            low=rounded(math.exp(low)),
            high=rounded(math.exp(high)),
        )
        for (name, rows), ratio, low, high in zip(named, *ends, strict=True)
    )


def points_of(
    arm: str,
    curve: Curve,
    observations: Observations,
    samples: Mapping[int, Mapping[int, LaunchSamples]],
    limit: float | None,
) -> ArmCurve:
    """Return an arm's points: every usable launch, also those whose partner is missing."""
    points = []
    for size in sorted(observations):
        by_block = observations[size]
        blocks = tuple(sorted(by_block))
        values = np.array([by_block[block] for block in blocks], dtype=np.float64)
        median = float(np.median(values))
        outside = resampling.tukey_outliers(values)
        points.append(
            Point(
                size=size,
                median=rounded(median),
                minimum=rounded(float(np.min(values))),
                maximum=rounded(float(np.max(values))),
                blocks=blocks,
                values=tuple(rounded(float(value)) for value in values),
                percent_of_limit=None if limit is None else rounded(100 * median / limit),
                outliers=tuple(block for block, out in zip(blocks, outside, strict=True) if out),
                tails=shown_tails(
                    [samples[size][block] for block in blocks],
                    higher_is_better=curve.higher_is_better,
                ),
            )
        )
    return ArmCurve(arm=arm, points=tuple(points), fit=_fit(curve, points))


def _fit(curve: Curve, points: Sequence[Point]) -> Fit | None:
    """Return Hockney's T0, B and half size (R. W. Hockney, Parallel Computing 20, 1994, 389)."""
    if curve.benchmark not in _FITTED:
        return None
    is_time = not curve.higher_is_better
    times = {
        point.size: point.median if is_time else point.size / point.median
        for point in points
        if is_time or point.size > 0
    }
    large = [size for size in times if size >= _LARGE_BYTES]
    rising = resampling.line(large, [times[size] for size in large])
    bandwidth = 1 / rising[1] if rising and rising[1] > 0 else None
    if not is_time:
        best = max((point.median for point in points), default=0.0)
        half = resampling.crossing(
            [point.size for point in points], [point.median for point in points], best / 2
        )
        return _fit_or_none(None, bandwidth, half)
    small = [size for size in times if size <= _SMALL_BYTES]
    flat = resampling.line(small, [times[size] for size in small])
    start = flat[0] if flat and flat[0] > 0 else None
    return _fit_or_none(start, bandwidth, start * bandwidth if start and bandwidth else None)


def _fit_or_none(start: float | None, bandwidth: float | None, half: float | None) -> Fit | None:
    if start is None and bandwidth is None and half is None:
        return None
    return Fit(
        t0_us=None if start is None else rounded(start),
        bandwidth=None if bandwidth is None else rounded(bandwidth),
        half_size=None if half is None else rounded(half),
    )


def _exp(value: float | None) -> float | None:
    return None if value is None else rounded(math.exp(value))
