"""What other programs took of some CPUs while a launch ran here, seen from outside of it.

Programs of other people, as IMB-MPI1 and OSU's, do not look at what else their CPUs do. Time of
this process's children, launchers and ranks, is known when they have ended; what the CPUs worked
beyond that was for somebody else. Launchers may run on other CPUs, so it is a lower bound.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Collection
from pathlib import Path

from stackproof.core.value import Value
from stackproof.results.measurement import Disturbance

_STAT = Path("/proc/stat")
_FEWEST_TICKS = 20
"""Ticks of the kernel's accounting below which a share of time means nothing."""


class CpuTimes(Value):
    """Seconds at a moment: of the clock, that CPUs worked for programs, that our children did."""

    clock: float
    worked: float
    children: float


def taken(before: CpuTimes, after: CpuTimes, cpus: int) -> Disturbance:
    """Return the share of the CPUs that others took, nothing where that cannot be told."""
    wall, worked = after.clock - before.clock, after.worked - before.worked
    tick = 1 / os.sysconf("SC_CLK_TCK")
    if worked <= 0 or wall * cpus < _FEWEST_TICKS * tick:
        return Disturbance()
    others = max(worked - (after.children - before.children), 0.0)
    return Disturbance(wall_s=wall, other_load=min(others / (wall * cpus), 1.0))


def watch(cpus: Collection[int]) -> Callable[[], Disturbance]:
    """Begin to watch CPUs of this machine; what is returned ends it and tells what others took."""
    before = _look(cpus)
    return lambda: taken(before, _look(cpus), len(cpus))


def _look(cpus: Collection[int]) -> CpuTimes:
    names = {f"cpu{number}" for number in cpus}
    # proc_stat(5): user, nice and system are its first three numbers; guests are within them.
    ticks = sum(
        sum(map(int, words[1:4]))
        for line in _STAT.read_text(encoding="ascii").splitlines()
        if (words := line.split()) and words[0] in names
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return CpuTimes(
        clock=time.monotonic(),
        worked=ticks / os.sysconf("SC_CLK_TCK"),
        children=used.ru_utime + used.ru_stime,
    )
