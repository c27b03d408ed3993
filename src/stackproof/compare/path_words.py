"""Results to the paths on which their arms differ, in words: what explains a difference of speed.

That arms take different paths, or different interfaces, is no fault; that nobody says so is one.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping

from stackproof.results.measurement import Measurement
from stackproof.results.model import Results

_TIMES = 1.5
"""How many times slower a path must be for its arm to be named with it."""


_BYTES = 1 << 20
_SHARE = 0.1
"""What carried messages sent so many bytes, and such a part of what the busiest sent."""


def differences(results: Results) -> tuple[str, ...]:
    """Return a line for each placement at which arms took different paths or interfaces."""
    return (*_lines(results), *_over(results))


def _over(results: Results) -> Iterator[str]:
    """Yield where arms on the same path sent over different interfaces of the nodes."""
    sent: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in results.measurements:
        if _counts(one) and one.case.placement.timed:
            key = (one.case.placement.name, one.case.transport)
            for rank in one.output.ranks:
                sent[key][one.arm] |= _carried(rank.tx_bytes)
    for (placement, _), by_arm in sent.items():
        groups: dict[str, list[str]] = defaultdict(list)
        for arm, names in by_arm.items():
            if names:  # of few bytes nothing can be said
                groups[", ".join(sorted(names))].append(arm)
        if len(groups) > 1:
            words = "; ".join(f"{', '.join(arms)} over {names}" for names, arms in groups.items())
            yield f"{placement}: the same path over different interfaces of the nodes: {words}."


def _carried(sent: Mapping[str, int]) -> set[str]:
    """Return the interfaces that carried messages; what stays on a node is no matter of them."""
    least = max(_BYTES, _SHARE * max(sent.values(), default=0))
    return {name for name, count in sent.items() if name != "lo" and count >= least}


def _lines(results: Results) -> Iterator[str]:
    paths: dict[str, dict[str, str]] = defaultdict(dict)
    for one in sorted(results.measurements, key=lambda one: one.order):
        if one.usable and one.case.placement.timed:
            paths[one.case.placement.name].setdefault(one.arm, one.case.transport)
    for placement, by_arm in paths.items():
        groups: dict[str, list[str]] = defaultdict(list)
        for arm, path in by_arm.items():
            groups[path].append(arm)
        if len(groups) < 2:
            continue
        words = "; ".join(f"{', '.join(arms)} took {path}" for path, arms in groups.items())
        slow = [
            text for arm in by_arm if (text := _slower(results, arm, placement, by_arm))
        ]  # fmt: skip
        more = f" {' '.join(slow)}" if slow else ""
        yield f"{placement}: {words}, as the specification asked.{more}"


def _slower(results: Results, arm: str, placement: str, by_arm: Mapping[str, str]) -> str:
    """Return how much slower an arm is that took another path than the baseline, in words."""
    base = results.spec.baseline
    if arm == base or base not in by_arm or by_arm[arm] == by_arm[base]:
        return ""
    ours, theirs = (_latency(results, one, placement) for one in (arm, base))
    sizes = sorted({*ours} & {*theirs})
    if not sizes:
        return ""
    size = sizes[0]
    times = ours[size] / theirs[size]
    if times < _TIMES:
        return ""
    return (
        f"{arm} is {times:.0f} times slower than {base} at {size} B, since {by_arm[arm]} is "
        f"not {by_arm[base]}: this is no property of its MPI."
    )


def _latency(results: Results, arm: str, placement: str) -> dict[int, float]:
    values: dict[int, list[float]] = defaultdict(list)
    for one in results.measurements:
        if one.arm == arm and one.case.placement.name == placement and _counts(one):
            for series in one.output.series:
                if series.benchmark == "latency" and series.size > 0 and series.values:
                    values[series.size].append(statistics.median(series.values))
    return {size: statistics.median(found) for size, found in values.items()}


def _counts(one: Measurement) -> bool:
    return one.usable and one.block > 0
