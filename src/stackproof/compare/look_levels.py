"""How the chance of error is shared among looks at results that are still coming in.

Whoever looks six times takes six chances to be wrong. So all looks that were planned test at one
stricter level, chosen so that together they err as seldom as one test would (S. J. Pocock, Group
Sequential Methods in the Design and Analysis of Clinical Trials, Biometrika 64, 1977). Intervals
of that level hold the truth at all looks together as often as one would (C. Jennison and B. W.
Turnbull, Interim Analyses: the Repeated Confidence Interval Approach, J. R. Stat. Soc. B 51, 1989),
so it does not matter why somebody stopped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from stackproof.compare.resampling import Floats

_GRID = 200
_FARTHEST = 8.0  # standard deviations; what lies beyond is nothing
_HALVINGS = 22
_POINTS = np.linspace(-40.0, 40.0, 16001)
_BEYOND = np.array([math.erfc(point / math.sqrt(2)) / 2 for point in _POINTS.tolist()])


@functools.lru_cache(maxsize=64)
def level(looks: tuple[int, ...], error: float) -> float:
    """Return the one-sided level of every look, so that all together make `error`."""
    low, high = 0.0, _FARTHEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _crossing(looks, middle) > error else (low, middle)
    return 1 - NormalDist().cdf(high)


def _crossing(looks: Sequence[int], boundary: float) -> float:
    """Return the chance that a statistic without a cause exceeds the boundary at some look.

    Statistics of two looks have the launches of the first in common: they are sums of as many
    normal variables, and their distribution is integrated from look to look (P. Armitage, C. K.
    McPherson and B. C. Rowe, Repeated Significance Tests on Accumulating Data, J. R. Stat. Soc. A
    132, 1969).
    """
    sums, weights, before, crossed = np.zeros(1), np.ones(1), 0, 0.0
    for look in looks:
        step, root = math.sqrt(look - before), math.sqrt(look)
        crossed += float(weights @ _beyond((boundary * root - sums) / step))
        edges = np.linspace(-_FARTHEST * root, boundary * root, _GRID + 1)
        weights = -np.diff(_beyond((edges[:, None] - sums) / step), axis=0) @ weights
        sums, before = (edges[:-1] + edges[1:]) / 2, look
    return crossed


def _beyond(values: Floats) -> Floats:
    """Return the chance of a normal variable to exceed each value."""
    return np.asarray(np.interp(values, _POINTS, _BEYOND), dtype=np.float64)
