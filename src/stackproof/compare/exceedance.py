"""Samples of paired launches to which of the two arms has more of the slowest.

A launch of twenty samples does not know its 95th percentile: where one message of ten is slow, four
launches of ten have less than two of them. All launches together know it. So the percentile is that
of all samples of an arm, and the test counts in each block how many samples of either arm are among
the slowest twentieth of all. Within a block swapping the arms changes neither which samples these
are nor, where the percentiles are equal, what the counts differ by on average: the median test for
two samples (A. M. Mood, Introduction to the Theory of Statistics, 1950, chapter 16), for another
quantile and by swaps within blocks.
"""

from __future__ import annotations

import numpy as np

from stackproof.compare.resampling import Floats

# Arrays are `arms x sizes x blocks x samples`, the baseline first: logarithms, larger is worse, and
# NaN for a sample that is not there.


def log_ratios(samples: Floats, share: int) -> Floats:
    """Return the log ratio of the two arms' percentile by size, above 0 if the second is better."""
    base, other = _levelled(samples)
    return _quantiles(_rows(base), share) - _quantiles(_rows(other), share)


def scores(samples: Floats, allowed: Floats, share: int) -> Floats:
    """Return by how much more of the second arm's samples are slow (`sizes x blocks`).

    `allowed` is by size the logarithm by which they may be slower. 0 where nothing is there.
    """
    base, other = _levelled(np.stack([samples[0], samples[1] - allowed[:, None, None]]))
    slowest = _quantiles(_rows(np.concatenate([base, other], axis=2)), share)[:, None, None]
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


def _rows(samples: Floats) -> Floats:
    return samples.reshape(len(samples), -1)


def _quantiles(rows: Floats, share: int) -> Floats:
    """Return each row's percentile by nearest rank; NaN where nothing is there."""
    counts = np.isfinite(rows).sum(axis=1)
    ranks = np.maximum(-(-share * counts // 100) - 1, 0)
    return np.asarray(np.sort(rows, axis=1)[np.arange(len(rows)), ranks], dtype=np.float64)
