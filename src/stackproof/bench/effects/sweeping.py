"""Launches of a sweep: rounds of blocks, after each of which the settings that lost are left out.

As in `deciding`, what a round decided is worked out from the launches that are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stackproof.bench.schedule import Launch
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace

Left = Mapping[tuple[str, str, str], tuple[str, ...]]
"""(placement, program, benchmark) -> the settings that are left there."""


def rounds(
    plan: Sequence[Launch], after: Sequence[int], folder: Path, monitor: Monitor
) -> Iterator[tuple[Launch, ...]]:
    """Yield the launches to be made, done ones among them, a block at a time.

    The first blocks have all settings; it is looked `after` so many. It ends when one is left on
    every curve, or with the last look. What is yielded must be made before the next is asked for.
    """
    yield tuple(one for one in plan if one.block == 0)
    left: Left | None = None
    last = 0
    for look in after:
        for block in range(last + 1, look + 1):
            yield tuple(_narrowed(plan, block, left))
        left, last = _left(folder, look), look
        open_curves = sum(len(arms) > 1 for arms in left.values())
        arms = {arm for arms in left.values() if len(arms) > 1 for arm in arms}
        text = f"after {look} launches of each setting "
        text += (
            f"{len(arms)} are left on {open_curves} of {len(left)} curves"
            if open_curves
            else "one is left on every curve"
        )
        monitor(Event(what="note", name="sweep", text=text))
        if not open_curves:
            return


def _left(folder: Path, look: int) -> Left:
    from stackproof.compare.compare import settings_left  # noqa: PLC0415 - numpy, for a look only
    from stackproof.compare.effects.results import load_results  # noqa: PLC0415 - as above

    return settings_left(load_results(folder), look)


def _narrowed(plan: Sequence[Launch], block: int, left: Left | None) -> Iterator[Launch]:
    """Yield a block's launches of settings that are left, with the benchmarks that are open."""
    arms: dict[tuple[str, str], set[str]] = defaultdict(set)
    benchmarks: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (placement, program, benchmark), names in (left or {}).items():
        if len(names) > 1:
            arms[placement, program] |= {*names}
            benchmarks[placement, program].add(benchmark)
    for launch in plan:
        place = (launch.placement, launch.program)
        if launch.block != block:
            continue
        if left is None:
            yield launch
        elif launch.arm in arms[place]:
            yield replace(launch, benchmarks=tuple(sorted(benchmarks[place])))
