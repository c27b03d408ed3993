"""The numbers behind a comparison: resampled medians, sign flips, fits, outliers.

Arrays are `sizes x blocks`: one row per message size, one column per block of launches. A missing
observation is NaN. Everything here is a pure function; randomness comes from a seed.
Why these methods: docs/explanation/statistics.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int16]

_CUT_OFF = 2.0
"""Differences count up to this many times their median size (chosen by simulation)."""

_ROUNDING = 1e-9
"""Two test statistics closer than this are equal: their sums differ by rounding only."""


def resample_counts(blocks: int, resamples: int, seed: int) -> Integers:
    """Return how often each block is drawn in each bootstrap resample (`blocks x resamples`).

    Depends on `seed` and `blocks` alone, so every cell with this many blocks sees the same draws
    and no cell's numbers depend on which other cells there are.
    """
    random = np.random.default_rng([seed, blocks])
    counts = random.multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples)
    return np.ascontiguousarray(counts.T, dtype=np.int16)


def bootstrap_medians(values: Floats, counts: Integers) -> Floats:
    """Return the median of every resample (`sizes x resamples`) of complete rows.

    A resample is given by how often it draws each block, so its median is found by walking the
    sorted values and adding up counts: no resample is ever written out or sorted.
    """
    blocks = values.shape[1]
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    lower_rank, upper_rank = (blocks - 1) // 2, blocks // 2
    seen = np.zeros((values.shape[0], counts.shape[1]), dtype=np.int16)
    lower = np.zeros(seen.shape, dtype=np.int16)
    upper = np.zeros(seen.shape, dtype=np.int16)
    for column in range(blocks - 1):
        seen += counts[order[:, column]]
        lower += seen <= lower_rank
        upper += seen <= upper_rank
    low_values = np.take_along_axis(ordered, lower, axis=1)
    high_values = np.take_along_axis(ordered, upper, axis=1)
    return (low_values + high_values) / 2


def percentile_interval(samples: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the percentile interval of each row of `samples`."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=1)
    return low, high


def sign_flips(blocks: int, limit: int, seed: int) -> npt.NDArray[np.int8]:
    """Return sign vectors (`flips x blocks`), the first all +1.

    All 2^blocks of them when that is at most `limit` (an exact test), otherwise `limit` drawn at
    random.
    """
    if 2**blocks <= limit:
        bits = (np.arange(2**blocks)[:, None] >> np.arange(blocks)) & 1
        return (1 - 2 * bits).astype(np.int8)
    random = np.random.default_rng([seed, blocks, 1])
    flips = (1 - 2 * random.integers(0, 2, size=(limit, blocks))).astype(np.int8)
    flips[0] = 1
    return flips


def stepdown_p_values(differences: Floats, flips: npt.NDArray[np.int8]) -> Floats:
    """Return adjusted one-sided p-values for "the differences of this row are not below 0".

    The statistic of a row is the sum of its differences over its standard deviation under swapping
    (Fisher's randomisation test of paired observations), with differences cut off at twice their
    median size, so that one wild launch decides nothing. Its null distribution comes from swapping
    the two arms within blocks, in all rows at once; swapping changes no difference's size, so the
    test stays exact. The adjustment is the step-down maximum of
    Westfall and Young (Resampling-Based Multiple Testing, Wiley 1993, algorithm 4.1): Holm's
    procedure with the joint distribution in place of Bonferroni's bound. Rows of NaN get NaN.
    """
    used = np.isfinite(differences).any(axis=1)
    result = np.full(differences.shape[0], np.nan)
    rows = differences[used]
    if not rows.size:
        return result
    reach = _CUT_OFF * np.nanmedian(np.abs(rows), axis=1, keepdims=True)
    rows = np.nan_to_num(np.clip(rows, -reach, reach), nan=0.0)
    norm = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    scores = rows / np.where(norm > 0, norm, 1.0)
    observed = -scores.sum(axis=1)
    flipped = -(flips.astype(np.float64) @ scores.T)
    order = np.argsort(-observed, kind="stable")
    # The running maximum from the smallest statistic up: at each step the rows still in question.
    maxima = np.maximum.accumulate(flipped[:, order[::-1]], axis=1)[:, ::-1]
    reached = (maxima >= observed[order] - _ROUNDING).mean(axis=0)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(reached)
    result[used] = adjusted
    return result


def tukey_outliers(values: Floats) -> npt.NDArray[np.bool_]:
    """Return which values of a row lie outside the quartiles by more than 1.5 times their distance.

    Tukey's rule (Exploratory Data Analysis, Addison-Wesley 1977, chapter 2).
    """
    first, third = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (third - first)
    return np.asarray((values < first - reach) | (values > third + reach), dtype=np.bool_)


def normal_quantile(tail: float) -> float:
    """Return the standard normal value exceeded with probability `tail`."""
    return float(-special.ndtri(tail))


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
