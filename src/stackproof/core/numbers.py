"""Numbers as people read them: message sizes and measured values."""

from __future__ import annotations

import math
from collections.abc import Iterable

_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size: int) -> str:
    """Return a number of bytes as text: `8 B`, `1 KiB`, `1.5 MiB`."""
    for step, unit in _STEPS:
        if size >= step:
            return f"{size / step:.4g} {unit}"
    return f"{size} B"


def disk_text(size: int) -> str:
    """Return the size on disk as text, in steps of 1000 as disks are sold: `12.4 MB`."""
    for step, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def value_text(value: float) -> str:
    """Return a value with four significant digits: `0.5911`, `1,250`, `13.25 M`."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.4g} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def ratio_text(value: float) -> str:
    """Return a ratio with two decimals, and a small one with two digits: `0.98`, `0.00016`."""
    if 0 < value < 0.095:
        rounded = float(f"{value:.1e}")
        return f"{rounded:.{1 - math.floor(math.log10(rounded))}f}"
    return f"{value:.2f}"


def percent_text(fraction: float) -> str:
    """Return a fraction as per cent with at most three significant digits: `12.3 %`, `1720 %`."""
    value = float(f"{fraction * 100:.3g}")
    return f"{value:.0f} %" if abs(value) >= 1000 else f"{value:g} %"


def duration_text(seconds: float) -> str:
    """Return a time as people say it: `8 s`, `3 min`, `1 h 20 min`; rounded up from a minute on."""
    if seconds < 59.5:
        return f"{max(round(seconds), 1)} s"
    minutes = -(-round(seconds) // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


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
