"""Numbers as people read them: message sizes and measured values."""

from __future__ import annotations

from collections.abc import Iterable

_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size: int) -> str:
    """Return a number of bytes as text: `8 B`, `1 KiB`, `1.5 MiB`."""
    for step, unit in _STEPS:
        if size >= step:
            return f"{size / step:.4g} {unit}"
    return f"{size} B"


def value_text(value: float) -> str:
    """Return a value with four significant digits: `0.5911`, `1,250`, `13.25 M`."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.4g} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent_text(fraction: float) -> str:
    """Return a fraction as per cent with at most three significant digits: `12.3 %`."""
    return f"{fraction * 100:.3g} %"


def ranges_text(chosen: Iterable[int], known: Iterable[int]) -> str:
    """Return sizes as ranges of neighbours among all known sizes: `1 B-64 B, 1 MiB`."""
    wanted = set(chosen)
    runs: list[list[int]] = []
    open_run = False
    for size in sorted(set(known) | wanted):
        if size not in wanted:
            open_run = False
        elif open_run:
            runs[-1].append(size)
        else:
            runs.append([size])
            open_run = True
    return ", ".join(
        size_text(run[0]) if len(run) == 1 else f"{size_text(run[0])}\u2013{size_text(run[-1])}"
        for run in runs
    )
