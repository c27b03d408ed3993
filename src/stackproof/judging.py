"""Observations of two arms on one curve to a judgement: a cell for every size, and the regimes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stackproof import resampling
from stackproof.comparison import (
    ArmCurve,
    Cell,
    Curve,
    Fit,
    Judgement,
    Point,
    Regime,
    Verdict,
    Why,
)
from stackproof.resampling import Floats

Observations = Mapping[int, Mapping[int, float]]
"""size -> block -> the launch's median, in the curve's unit."""

FEWEST_BLOCKS = 5
"""With fewer pairs no sign pattern is rarer than 1 in 16, so nothing can be judged."""

_EXACT_FLIPS = 1 << 13
"""Up to 13 pairs every swap of arms is tried; with more, at least so many random ones."""

_MOST_LAUNCHES = 1000
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What to judge by; `floor` is the noise floor by size, empty without a null arm."""

    margins: Mapping[str, float]
    confidence: float
    family_error: float
    resamples: int
    seed: int
    minimum_launches: int
    floor: Mapping[int, float] = field(default_factory=dict)

    @property
    def needed(self) -> int:
        """Return how many pairs a cell must have to be judged."""
        return max(self.minimum_launches, FEWEST_BLOCKS)

    def fail_margin(self, curve: Curve, size: int) -> float:
        """Return the slow-down beyond which a size FAILs: the margin, or the noise if larger."""
        return max(self.margins[curve.kind], self.floor.get(size, 0.0))

    @staticmethod
    def floors(null: Judgement) -> dict[int, float]:
        """Return the noise floor by size, as the fraction by which the null arm seems slower.

        It is the largest difference that the baseline shows against itself at this size or its two
        neighbours, so that one size which agreed by luck does not hide the noise around it. The
        difference counts in both directions: which of the two came out ahead is chance.
        """
        seen = [
            (cell.size, abs(math.log(cell.ratio)))
            for cell in null.cells
            if cell.ratio is not None and cell.blocks >= FEWEST_BLOCKS
        ]
        return {
            size: 1 - math.exp(-max(log for _, log in seen[max(at - 1, 0) : at + 2]))
            for at, (size, _) in enumerate(seen)
        }


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Observations of both arms (`sizes x blocks`, NaN in both where the pair is not complete).

    `sign` is +1 when more is better and -1 when less is.
    """

    sizes: tuple[int, ...]
    blocks: tuple[int, ...]
    baseline: Floats
    challenger: Floats
    sign: float

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Return which pairs are there (`sizes x blocks`)."""
        return np.isfinite(self.challenger)

    def log_ratio(self, baseline: Floats, challenger: Floats) -> Floats:
        """Return the log of the oriented ratio: above 0 when the challenger is better."""
        return np.asarray(self.sign * (np.log(challenger) - np.log(baseline)), dtype=np.float64)


@functools.lru_cache(maxsize=16)
def _counts(blocks: int, resamples: int, seed: int) -> resampling.Integers:
    return resampling.resample_counts(blocks, resamples, seed)


@functools.lru_cache(maxsize=16)
def _flips(blocks: int, limit: int, seed: int) -> npt.NDArray[np.int8]:
    return resampling.sign_flips(blocks, limit, seed)


Contest = tuple[Curve, Observations, Observations]
"""A curve with the observations of the baseline and of a challenger."""


def family_p_values(contests: Sequence[Contest], rules: Rules) -> list[dict[int, float]]:
    """Return the adjusted p-values by size for each contest, all of them as one family.

    The hypothesis is "not worse than the FAIL margin". Sizes with too few pairs have none.
    """
    paired = [
        _pair(baseline, challenger, higher_is_better=curve.higher_is_better)
        for curve, baseline, challenger in contests
    ]
    if not paired:
        return []
    blocks = sorted({block for pairs in paired for block in pairs.blocks})
    rows = []
    for (curve, _, _), pairs in zip(contests, paired, strict=True):
        limits = np.array([rules.fail_margin(curve, size) for size in pairs.sizes])
        differences = pairs.log_ratio(pairs.baseline, pairs.challenger)
        differences -= np.log1p(-limits)[:, None]
        differences[pairs.complete.sum(axis=1) < rules.needed] = np.nan
        aligned = np.full((len(pairs.sizes), len(blocks)), np.nan)
        aligned[:, np.searchsorted(blocks, pairs.blocks)] = differences
        rows.append(aligned)
    flips = _flips(len(blocks), max(rules.resamples, _EXACT_FLIPS), rules.seed)
    p_values = iter(resampling.stepdown_p_values(np.vstack(rows), flips))
    found = [{size: float(next(p_values)) for size in pairs.sizes} for pairs in paired]
    return [{size: p for size, p in one.items() if not math.isnan(p)} for one in found]


def judge(
    arm: str, contest: Contest, rules: Rules, p_values: Mapping[int, float] | None = None
) -> Judgement:
    """Return the judgement of `arm` on one curve.

    `p_values` are those of a larger family than this curve; None makes the curve the family.
    """
    curve, baseline, challenger = contest
    pairs = _pair(baseline, challenger, higher_is_better=curve.higher_is_better)
    if p_values is None:
        (p_values,) = family_p_values([contest], rules)
    samples = _bootstrap(pairs, rules)
    cells = tuple(
        _cell(
            _Estimate.of(pairs, row, samples[row], rules.confidence, p_values.get(size)),
            (rules.margins[curve.kind], rules.floor.get(size)),
            rules,
            len(p_values),
        )
        for row, size in enumerate(pairs.sizes)
    )
    regimes = _regimes(pairs, samples, rules) if curve.sized else ()
    return Judgement(arm=arm, cells=cells, regimes=regimes)


def _pair(baseline: Observations, challenger: Observations, *, higher_is_better: bool) -> _Pairs:
    sizes = tuple(sorted({*baseline, *challenger}))
    blocks = sorted({block for one in (*baseline.values(), *challenger.values()) for block in one})

    def matrix(observations: Observations) -> Floats:
        rows = [
            [observations.get(size, {}).get(block, math.nan) for block in blocks] for size in sizes
        ]
        return np.array(rows, dtype=np.float64)

    left, right = matrix(baseline), matrix(challenger)
    paired = np.isfinite(left) & np.isfinite(right)
    return _Pairs(
        sizes=sizes,
        blocks=tuple(blocks),
        baseline=np.where(paired, left, np.nan),
        challenger=np.where(paired, right, np.nan),
        sign=1.0 if higher_is_better else -1.0,
    )


def _bootstrap(pairs: _Pairs, rules: Rules) -> list[Floats | None]:
    """Return the resampled log ratios of every size; None with fewer than two pairs.

    Sizes with the same blocks are done together, and with the same draws, so that their ratios
    may be combined resample by resample.
    """
    found: list[Floats | None] = [None] * len(pairs.sizes)
    complete = pairs.complete
    for pattern in np.unique(complete, axis=0):
        blocks = int(pattern.sum())
        if blocks < 2:
            continue
        rows = np.flatnonzero((complete == pattern).all(axis=1))
        counts = _counts(blocks, rules.resamples, rules.seed)
        part = np.ix_(rows, np.flatnonzero(pattern))
        ratios = pairs.log_ratio(
            resampling.bootstrap_medians(pairs.baseline[part], counts),
            resampling.bootstrap_medians(pairs.challenger[part], counts),
        )
        for row, ratio in zip(rows, ratios, strict=True):
            found[int(row)] = ratio
    return found


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What is known of one cell: the log ratio and its interval, None where there are no pairs."""

    size: int
    blocks: int
    center: float | None
    low: float | None
    high: float | None
    p: float | None

    @staticmethod
    def of(
        pairs: _Pairs, row: int, samples: Floats | None, confidence: float, p: float | None
    ) -> _Estimate:
        complete = pairs.complete[row]
        center = low = high = None
        if complete.any():
            center = float(
                pairs.log_ratio(
                    np.median(pairs.baseline[row, complete]),
                    np.median(pairs.challenger[row, complete]),
                )
            )
        if samples is not None:
            lows, highs = resampling.percentile_interval(samples[None, :], confidence)
            low, high = float(lows[0]), float(highs[0])
        return _Estimate(pairs.sizes[row], int(complete.sum()), center, low, high, p)


def _cell(
    estimate: _Estimate, margins: tuple[float, float | None], rules: Rules, sizes: int
) -> Cell:
    """Return the judgement of one size; `sizes` is how many of the curve are judged together."""
    margin, floor = margins
    verdict, why = _decide(estimate, margin, max(margin, floor or 0.0), rules)
    return Cell(
        size=estimate.size,
        blocks=estimate.blocks,
        verdict=verdict,
        why=why,
        margin=margin,
        ratio=_exp(estimate.center),
        low=_exp(estimate.low),
        high=_exp(estimate.high),
        p=None if estimate.p is None else rounded(estimate.p),
        floor=None if floor is None else rounded(floor),
        launches_needed=(
            None
            if verdict is not Verdict.INCONCLUSIVE
            else _launches_needed(estimate, margin, max(margin, floor or 0.0), rules, sizes)
        ),
    )


def _decide(
    estimate: _Estimate, margin: float, fail_margin: float, rules: Rules
) -> tuple[Verdict, Why | None]:
    if estimate.center is None:
        return Verdict.INCONCLUSIVE, Why.NO_PAIRS
    if estimate.blocks < rules.needed or estimate.low is None or estimate.high is None:
        return Verdict.INCONCLUSIVE, Why.TOO_FEW
    if estimate.low >= math.log1p(-margin):
        return Verdict.PASS, None
    why = None
    if estimate.high >= math.log1p(-margin):
        why = Why.INTERVAL
    elif estimate.high >= math.log1p(-fail_margin):
        why = Why.NOISE
    elif estimate.p is None or estimate.p > rules.family_error:
        why = Why.CHANCE
    return (Verdict.FAIL if why is None else Verdict.INCONCLUSIVE), why


def _launches_needed(
    estimate: _Estimate, margin: float, fail_margin: float, rules: Rules, sizes: int
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
            1.0, share / resampling.normal_quantile((1 - rules.confidence) / 2)
        )
        distance = math.log1p(-fail_margin) - estimate.center
    if distance <= 0 or half <= 0:
        return None
    needed = max(math.ceil(blocks * (half / distance) ** 2), blocks + 1)
    return needed if needed <= _MOST_LAUNCHES else None


def _regimes(pairs: _Pairs, samples: Sequence[Floats | None], rules: Rules) -> tuple[Regime, ...]:
    """Return the geometric mean of the ratios in each range of sizes, over blocks they share."""
    found = []
    for name, smallest, largest in REGIMES:
        rows = np.array(
            [row for row, size in enumerate(pairs.sizes) if smallest <= size <= largest],
            dtype=np.intp,
        )
        if not rows.size:
            continue
        shared = pairs.complete[rows].all(axis=0)
        if shared.sum() < FEWEST_BLOCKS:
            continue
        part = _Pairs(
            sizes=tuple(pairs.sizes[row] for row in rows),
            blocks=tuple(np.array(pairs.blocks)[shared]),
            baseline=pairs.baseline[np.ix_(rows, np.flatnonzero(shared))],
            challenger=pairs.challenger[np.ix_(rows, np.flatnonzero(shared))],
            sign=pairs.sign,
        )
        center = part.log_ratio(
            np.median(part.baseline, axis=1), np.median(part.challenger, axis=1)
        ).mean()
        same = bool((pairs.complete[rows] == shared).all())
        chosen = [samples[row] for row in rows] if same else _bootstrap(part, rules)
        mean = np.mean([sample for sample in chosen if sample is not None], axis=0)
        low, high = resampling.percentile_interval(mean[None, :], rules.confidence)
        found.append(
            Regime(
                name=name,
                sizes=part.sizes,
                ratio=rounded(math.exp(center)),
                low=rounded(math.exp(low[0])),
                high=rounded(math.exp(high[0])),
            )
        )
    return tuple(found)


def points_of(arm: str, curve: Curve, observations: Observations, limit: float | None) -> ArmCurve:
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
                minimum=rounded(float(values.min())),
                maximum=rounded(float(values.max())),
                blocks=blocks,
                values=tuple(rounded(float(value)) for value in values),
                percent_of_limit=None if limit is None else rounded(100 * median / limit),
                outliers=tuple(block for block, out in zip(blocks, outside, strict=True) if out),
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


def rounded(value: float) -> float:
    """Return a value to six significant digits: more would be noise, and unlike on each machine."""
    return float(f"{value:.6g}")


def _exp(value: float | None) -> float | None:
    return None if value is None else rounded(math.exp(value))
