"""Results to the paths on which their arms differ, in words: what explains a difference of speed.

That arms take different paths, or different interfaces, is no fault; that nobody says so is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from stackproof.results.measurement import Measurement
from stackproof.results.model import Results

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
        yield (
            f"{placement}: {words}, as the specification asked; a difference of speed between "
            "these is none of their MPIs."
        )


def _counts(one: Measurement) -> bool:
    return one.usable and one.block > 0
