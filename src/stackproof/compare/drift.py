"""Launches of an experiment to a change of the machine in its midst, that all arms show alike.

Arms are compared within blocks, so that a link which loses half of its rate changes no ratio: what
is compared then are two machines, and nobody asked for that. No verdict depends on this.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from stackproof.compare.judge import Observations
from stackproof.compare.model import Curve

_STEP = math.log(1.25)
"""By how much all launches after a change must differ from those before, by their medians."""

_SIDE = 3
"""Blocks that must be there on both sides of a change."""


def changes(
    table: Mapping[tuple[str, str, str], Mapping[str, Observations]],
    curves: Mapping[tuple[str, str, str], Curve],
) -> Iterator[str]:
    """Yield a sentence for each curve on which all arms changed at one block, and stayed so.

    Each block after the change is beyond each block before it. Where nothing changes, orders of
    ten blocks do so at one place or another in 6 of 100 cases; that the step is a quarter besides
    leaves noise that is as large as that, which a reader should know of as well.
    """
    for key, by_arm in table.items():
        step = _step(_levels(by_arm))
        if step is None:
            continue
        block, log = step
        curve = curves[key]
        worse = (log > 0) is not curve.higher_is_better
        yield (
            f"{curve.title} {curve.placement}: every arm became {math.exp(abs(log)):.1f} times "
            f"{'slower' if worse else 'faster'} from block {block} on: the machine or its network "
            "changed while it was measured. Launches of one block are compared, so that the "
            "ratios hold; they are of two machines"
        )


def _levels(by_arm: Mapping[str, Observations]) -> dict[int, list[float]]:
    """Return by block how far each arm is from its own median, as a logarithm over all sizes."""
    found: dict[int, list[float]] = {}
    for observations in by_arm.values():
        own: dict[int, list[float]] = {}
        for by_block in observations.values():
            middle = statistics.median(by_block.values()) if by_block else 1.0
            for block, value in by_block.items():
                own.setdefault(block, []).append(math.log(value / middle))
        for block, logs in own.items():
            found.setdefault(block, []).append(statistics.median(logs))
    return found


def _step(levels: Mapping[int, Sequence[float]]) -> tuple[int, float] | None:
    """Return the first block after a change that all arms show, and by how much they changed."""
    blocks = sorted(levels)
    for at in range(_SIDE, len(blocks) - _SIDE + 1):
        before = [value for block in blocks[:at] for value in levels[block]]
        after = [value for block in blocks[at:] for value in levels[block]]
        apart = min(after) > max(before) or max(after) < min(before)
        log = statistics.median(after) - statistics.median(before)
        if apart and abs(log) >= _STEP:
            return blocks[at], log
    return None
