"""The numbers behind a comparison: location and interval, sign flips, fits, outliers.

Arrays are `sizes x blocks`: one row per message size, one column per block of launches, holding
the log ratio of the two launches of the block. A missing pair is NaN. Everything here is a pure
function and nothing is drawn at random. Why these methods: docs/explanation/statistics.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_CUT_OFF = 2.5
"""Differences count up to this many times their median distance (chosen by simulation)."""

_MOST_EXHAUSTIVE = 13
"""Up to so many blocks every swap of arms is tried; with more, a subgroup of as many swaps."""

_ROUNDING = 1e-9
"""Two test statistics closer than this are equal: their sums differ by rounding only."""

_NARROW = 1e-4
"""An interval's end is known to this fraction of the scale, on the rejected side."""

_SMALLEST = 1e-9
"""Scale of a row whose differences are all equal: no measured time is known so well."""


@functools.lru_cache(maxsize=32)
def sign_flips(blocks: int) -> Floats:
    """Return half of the sign vectors of the test (`flips x blocks`), the first all +1.

    The other half are their negatives. Up to 13 blocks these are all vectors. Beyond, they are
    4096 of a subgroup, of which the test is as exact: under the hypothesis every member of the
    group leads to data that are as likely (E. L. Lehmann and J. P. Romano, Testing Statistical
    Hypotheses, 3rd ed., 2005, 15.2). The subgroup is a linear code whose columns are the points
    (1, x, x^3) of GF(64), of which any five are independent, so that any five blocks see every
    pattern of signs equally often (the dual of the extended double-error-correcting BCH code); with
    more than 64 blocks (1, x) of GF(4096), any three.
    """
    if blocks <= _MOST_EXHAUSTIVE:
        words = np.arange(1 << max(blocks - 1, 0))
        columns = [0, *(1 << np.arange(blocks - 1))] if blocks else []
    else:
        words = np.arange(1 << (_MOST_EXHAUSTIVE - 1))
        columns = _code_columns(blocks)
    signs = np.array([1.0 - 2.0 * (word.bit_count() & 1) for word in range(len(words))])
    flips = np.ones((len(words), blocks), dtype=np.float64)
    for at, column in enumerate(columns):
        flips[:, at] = signs[words & int(column)]
    flips.setflags(write=False)
    return flips


def _code_columns(blocks: int) -> list[int]:
    """Return a column of 12 bits for every block (the bit that negates all is left out)."""
    if blocks <= 64:
        powers = _powers(6, 0b1000011)
        return [0, *(x | powers[3 * at % 63] << 6 for at, x in enumerate(powers))][:blocks]
    if blocks > 1 << 12:
        raise ValueError(f"{blocks} blocks are more than the code is long")
    return [0, *_powers(12, 0b1000001010011)][:blocks]


def _powers(bits: int, polynomial: int) -> list[int]:
    """Return the powers of a primitive element of GF(2^bits), 1 first."""
    found, element = [], 1
    for _ in range((1 << bits) - 1):
        found.append(element)
        element <<= 1
        if element >> bits:
            element ^= polynomial
    return found


def scales(differences: Floats) -> Floats:
    """Return how far differences of each row count: 2.5 times their median distance.

    The distance is from their median. A wild launch then decides as little as one that is
    just outside, and which arm it hit does not matter.
    """
    middle = _medians(differences)
    spread = _medians(np.abs(differences - middle[:, None]))
    return np.maximum(_CUT_OFF * spread, _SMALLEST)


def _medians(rows: Floats) -> Floats:
    """Return the median of each row, of what is there."""
    ordered, at = np.sort(rows, axis=1), np.arange(len(rows))  # what is not there comes last
    count = (~np.isnan(rows)).sum(axis=1)
    middle = ordered[at, (count - 1) // 2] + ordered[at, count // 2]
    return np.asarray(middle / 2, dtype=np.float64)


def _scores(differences: Floats, scale: Floats, at: Floats) -> Floats:
    """Return the differences from `at` in units of the scale, cut off at 1; 0 where none is."""
    cut = np.minimum(np.maximum((differences - at[:, None]) / scale[:, None], -1.0), 1.0)
    return np.where(np.isnan(cut), 0.0, cut)


def centers(differences: Floats) -> Floats:
    """Return the location of each row: where differences to both sides, cut off, balance.

    P. J. Huber's M-estimator with a fixed scale (Robust Statistics, Wiley 1981, chapter 3). Every
    row must have an observation.
    """
    scale, at = scales(differences), _medians(differences)
    count = np.isfinite(differences).sum(axis=1)
    # At least half of the differences are not cut off, so that each step halves the error.
    for _ in range(50):
        step = _scores(differences, scale, at).sum(axis=1) / count
        at = at + scale * step
        if (np.abs(step) < _ROUNDING).all():
            break
    return at


def intervals(
    differences: Floats, tail: float, located: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of each row's interval, the true location beyond each with chance `tail`.

    An end is where the test by sign flips with the statistic of `centers` begins to reject. It is
    the order statistic of the locations of all subsets of the blocks (J. A. Hartigan, Using
    Subsample Values as Typical Values, JASA 64, 1969, 1303), so it exists, is unique, and is exact
    when differences are distributed symmetrically, which two launches of one block are whose
    noise is alike. No end is farther out than the outermost difference: with n pairs `tail`
    is never less than 1 in 2^n. `located` are the `centers`, where they are known.
    """
    middle = centers(differences) if located is None else located
    return -_upper_ends(-differences, tail, -middle), _upper_ends(differences, tail, middle)


def _upper_ends(differences: Floats, tail: float, middle: Floats) -> Floats:
    """Return the smallest value for each row at which "not below it" is rejected."""
    scale = scales(differences)
    complete = np.isfinite(differences).sum(axis=1)
    flips, narrow = sign_flips(differences.shape[1]), _NARROW * scale
    # Missing pairs count in both halves of their swaps alike.
    chances = np.maximum(tail, 0.5**complete) * (1 + _ROUNDING)
    allowed = np.floor(chances * 2 * len(flips)).astype(np.int64)

    def excess(rows: npt.NDArray[np.intp], at: Floats) -> Floats:
        """Return how far beyond its critical value the statistic is, above 0 where rejected."""
        scores = _scores(differences[rows], scale[rows], at)
        ranks = len(flips) - 1 - allowed[rows]
        sums = np.partition(np.abs(scores @ flips.T), np.unique(ranks), axis=1)
        critical = sums[np.arange(len(rows)), ranks]
        return np.asarray(-scores.sum(axis=1) - critical - _ROUNDING, dtype=np.float64)

    accepted, rejected = middle.copy(), np.nanmax(differences, axis=1)
    open_rows = np.flatnonzero(rejected - accepted > narrow)
    low = np.full(len(scale), 0.0)
    low[open_rows] = excess(open_rows, accepted[open_rows])
    high = np.full(len(scale), 0.0)
    high[open_rows] = excess(open_rows, rejected[open_rows])
    # Where even the outermost difference is not rejected, what lies beyond it is.
    open_rows = open_rows[high[open_rows] > 0]
    step = 0
    while open_rows.size:
        rows, step = open_rows, step + 1
        rising = np.maximum(high[rows] - low[rows], _SMALLEST)
        # Every other step by the secant, kept off the ends.
        share = np.clip(-low[rows] / rising, 0.05, 0.95) if step % 2 else np.full(len(rows), 0.5)
        at = accepted[rows] + share * (rejected[rows] - accepted[rows])
        found = excess(rows, at)
        beyond = found > 0
        rejected[rows[beyond]], high[rows[beyond]] = at[beyond], found[beyond]
        accepted[rows[~beyond]], low[rows[~beyond]] = at[~beyond], found[~beyond]
        open_rows = rows[rejected[rows] - accepted[rows] > narrow[rows]]
    return np.asarray(rejected, dtype=np.float64)


def below(differences: Floats, limits: Floats, tail: float) -> npt.NDArray[np.bool_]:
    """Return for each row whether "not below its limit" is rejected, wrongly with chance `tail`.

    The test is that of `intervals`: true is where the upper end of the interval lies below.
    """
    return above_zero(scores_below(differences, limits), tail)


def above_zero(scores: Floats, tail: float) -> npt.NDArray[np.bool_]:
    """Return for each row whether "the scores are not above 0" is rejected, by the same test."""
    flips = sign_flips(scores.shape[1])
    allowed = math.floor(tail * (1 + _ROUNDING) * 2 * len(flips))
    sums = np.partition(np.abs(scores @ flips.T), len(flips) - 1 - allowed, axis=1)
    critical = sums[:, len(flips) - 1 - allowed]
    return np.asarray(scores.sum(axis=1) - critical > _ROUNDING, dtype=np.bool_)


def stepdown_p_values(differences: Floats, limits: Floats) -> Floats:
    """Return adjusted one-sided p-values for "this row is not below its limit".

    The statistic of a row is the sum of its differences from the limit, cut off as `scales` says.
    Rows of NaN get NaN.
    """
    used = np.isfinite(differences).any(axis=1)
    result = np.full(differences.shape[0], np.nan)
    if used.any():
        result[used] = stepdown(scores_below(differences[used], limits[used]))
    return result


def scores_below(differences: Floats, limits: Floats) -> Floats:
    """Return the distance of each difference below its row's limit, cut off as `scales` says."""
    return -_scores(differences, scales(differences), limits)


def stepdown(scores: Floats) -> Floats:
    """Return adjusted one-sided p-values for "the scores of this row are not above 0".

    The statistic of a row is the sum of its scores over its standard deviation under swapping
    (Fisher's randomisation test of paired observations). Its null distribution comes from swapping
    the two arms within blocks, in all rows at once. The adjustment is the step-down maximum of
    Westfall and Young (Resampling-Based Multiple Testing, Wiley 1993, algorithm 4.1): Holm's
    procedure with the joint distribution in place of Bonferroni's bound.
    """
    norm = np.sqrt((scores**2).sum(axis=1, keepdims=True))
    scores = scores / np.where(norm > 0, norm, 1.0)
    observed = scores.sum(axis=1)
    order = np.argsort(-observed, kind="stable")
    half = sign_flips(scores.shape[1]) @ scores[order].T
    # The running maximum from the smallest statistic up: at each step the rows still in question.
    reached = np.zeros(len(order))
    for flipped in (half, -half):
        maxima = np.maximum.accumulate(flipped[:, ::-1], axis=1)[:, ::-1]
        reached += (maxima >= observed[order] - _ROUNDING).mean(axis=0) / 2
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(reached)
    return adjusted


def tukey_outliers(values: Floats) -> npt.NDArray[np.bool_]:
    """Return which values of a row lie outside the quartiles by more than 1.5 times their distance.

    Tukey's rule (Exploratory Data Analysis, Addison-Wesley 1977, chapter 2).
    """
    first, third = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (third - first)
    return np.asarray((values < first - reach) | (values > third + reach), dtype=np.bool_)


def rounded(value: float) -> float:
    """Return a value to six significant digits: more would be noise, and unlike on each machine."""
    return float(f"{value:.6g}")


def normal_quantile(tail: float) -> float:
    """Return the standard normal value exceeded with probability `tail`."""
    return -NormalDist().inv_cdf(tail)


def line(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float] | None:
    """Return intercept and slope of the line with least squared relative error, or None.

    Relative, because the times span orders of magnitude and each is known to a fraction of itself.
    None with fewer than two different sizes.
    """
    if len(set(sizes)) < 2:
        return None
    weight = 1 / np.asarray(times, dtype=np.float64)
    design = np.column_stack([weight, weight * np.asarray(sizes, dtype=np.float64)])
    solution = np.linalg.lstsq(design, np.ones(len(times)), rcond=None)[0]
    return float(solution[0]), float(solution[1])


def crossing(sizes: Sequence[int], values: Sequence[float], level: float) -> float | None:
    """Return the size at which values first reach `level`, between points on a log-log line."""
    pairs = [(s, v) for s, v in zip(sizes, values, strict=True) if s > 0]
    for (left, low), (right, high) in itertools.pairwise(pairs):
        if low < level <= high:
            share = math.log(level / low) / math.log(high / low)
            return float(left * (right / left) ** share)
    return None


# --- samples of paired launches, to which of the two arms has more of the slowest -----------
#
# A launch of twenty samples does not know its 95th percentile: where one message of ten is slow,
# four launches of ten have less than two of them. All launches together know it. So the
# percentile is that of all samples of an arm, and the test counts in each block how many samples
# of either arm are among the slowest twentieth of all. Within a block swapping the arms changes
# neither which samples these are nor, where the percentiles are equal, what the counts differ by
# on average: the median test for two samples (A. M. Mood, Introduction to the Theory of
# Statistics, 1950, chapter 16), for another quantile and by swaps within blocks.
#
# Arrays are here `arms x sizes x blocks x samples`, the baseline first: logarithms, larger is
# worse, and NaN for a sample that is not there.


def percentile_ratios(samples: Floats, share: int) -> Floats:
    """Return the log ratio of the two arms' percentile by size, above 0 if the second is better."""
    base, other = _levelled(samples)
    return _quantiles(_flat(base), share) - _quantiles(_flat(other), share)


def slow_scores(samples: Floats, allowed: Floats, share: int) -> Floats:
    """Return by how much more of the second arm's samples are slow (`sizes x blocks`).

    `allowed` is by size the logarithm by which they may be slower. 0 where nothing is there.
    """
    base, other = _levelled(np.stack([samples[0], samples[1] - allowed[:, None, None]]))
    slowest = _quantiles(_flat(np.concatenate([base, other], axis=2)), share)[:, None, None]
    counts = [(arm > slowest).sum(axis=2) / np.maximum(_there(arm), 1) for arm in (base, other)]
    return np.asarray(counts[1] - counts[0], dtype=np.float64)


def _there(samples: Floats) -> Floats:
    return np.asarray(np.isfinite(samples).sum(axis=-1), dtype=np.float64)


def _levelled(samples: Floats) -> Floats:
    """Return samples as they are beside the medians of both launches of their block.

    A machine that drifts is so out of the way, for both arms alike.
    """
    medians = _quantiles(samples.reshape(-1, samples.shape[-1]), 50).reshape(samples.shape[:-1])
    level = medians.mean(axis=0)[None, :, :, None]
    return np.asarray(samples - level, dtype=np.float64)


def _flat(samples: Floats) -> Floats:
    return samples.reshape(len(samples), -1)


def _quantiles(rows: Floats, share: int) -> Floats:
    """Return each row's percentile by nearest rank; NaN where nothing is there."""
    counts = np.isfinite(rows).sum(axis=1)
    ranks = np.maximum(-(-share * counts // 100) - 1, 0)
    return np.asarray(np.sort(rows, axis=1)[np.arange(len(rows)), ranks], dtype=np.float64)
