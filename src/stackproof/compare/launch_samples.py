"""Samples of one launch at one size to what they tell beside their median."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from stackproof.compare.resampling import rounded
from stackproof.core.value import Value
from stackproof.results.measurement import Series
from stackproof.results.metrics import Metric

STATISTICS = ("mean", "p95", "p99")

SHARES = {"p95": 95, "p99": 99}
_FEWEST = {"mean": 2, "p95": 10, "p99": 50}
"""Samples from which a launch has the statistic."""


class LaunchSamples(Value, kw_only=False):
    """The samples, and `STATISTICS` in `tail`: NaN for those that they are too few for."""

    values: tuple[float, ...]
    tail: tuple[float, ...]


def samples_of(series: Series, metric: Metric) -> LaunchSamples:
    """Return the samples of a launch with their statistics, or those that the program printed.

    Of OSU's `-z` these are the columns `P95 Tail Lat(us)` and, as it sorts bandwidths upwards too,
    `P5 Tail BW(MB/s)`.
    """
    values = series.values
    tail = [math.fsum(values) / len(values) if len(values) >= _FEWEST["mean"] else math.nan]
    ordered: list[float] = []
    for name in STATISTICS[1:]:
        if len(values) >= _FEWEST[name]:
            ordered = ordered or sorted(values, reverse=metric.higher_is_better)
            tail.append(percentile(ordered, SHARES[name]))
        else:
            tail.append(_printed(series, metric, name) if series.printed else math.nan)
    return LaunchSamples(values, tuple(tail))


def _printed(series: Series, metric: Metric, name: str) -> float:
    share = SHARES[name]
    column = f"P{share} Tail Lat(us)"
    if metric.higher_is_better:
        column = f"P{100 - share} Tail BW(MB/s)"
    value = series.printed.get(column, math.nan)
    return value if 0 < value < math.inf else math.nan


def percentile(ordered: Sequence[float], share: int) -> float:
    """Return the value that so many percent of the values, the best first, do not exceed.

    By nearest rank. Of 10 to 19 values the 95th percentile is the worst, of 20 the second: what
    lies beyond is expected to be 5 to 10 percent in each case, so that an arm which got a few
    samples fewer has no advantage.
    """
    return ordered[math.ceil(share * len(ordered) / 100) - 1]


def shown_tails(launches: Sequence[LaunchSamples], *, higher_is_better: bool) -> dict[str, float]:
    """Return the tail's statistics of an arm's launches at one size, without what nobody knows.

    Mean and 95th percentile are the medians over launches; the 99th percentile is that of all
    samples together, from 100 on, as a launch alone has seldom enough for one.
    """
    found = {
        name: statistics.median(each)
        for name, *each in zip(STATISTICS, *(launch.tail for launch in launches), strict=True)
        if not any(map(math.isnan, each))
    }
    values = [value for launch in launches for value in launch.values]
    if len(values) >= 100:
        found["p99"] = percentile(sorted(values, reverse=higher_is_better), SHARES["p99"])
    return {name: rounded(value) for name, value in found.items()}
