"""A look at how busy this machine is, and waiting until it is quiet.

`watch` is what verbs that time something call before they begin.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from stackproof.core import busy, harmless
from stackproof.core.busy import MachineLoad

LOAD = Path("/proc/loadavg")
"""Where the kernel tells the load; tests put another file here."""

LOOK_S = 0.5
"""How long a look takes."""

_READS = 10
_POLL_S = 5.0
_QUIET_LOOKS = 3
_STAT_TIMES = slice(11, 13)
"""User and system time among the fields after the name in /proc/PID/stat (proc(5))."""


def watch(
    tell: Callable[[str], None],
    expected: str,
    wait_s: float | None = None,
    option: str = "--wait-for-quiet 30m",
) -> MachineLoad:
    """Look at this machine, tell in a sentence if it is busy, and wait if that is asked for.

    `expected` is the outcome that a busy machine makes likely, such as INCONCLUSIVE; `option` is
    how to wait, for a caller who did not ask for it. Returns the last look.
    """
    load = look()
    if load.is_busy and wait_s:
        tell(busy.waiting_sentence(load, expected, wait_s))
        began = time.monotonic()
        load = wait_for_quiet(wait_s)
        tell(busy.quiet_sentence(load, time.monotonic() - began))
    elif load.is_busy:
        tell(busy.busy_sentence(load, expected, option))
    return load


def look() -> MachineLoad:
    """Return the load of this machine now; zeros where the kernel does not tell."""
    before = _times()
    reads = []
    for _ in range(_READS):
        reads.append(_read())
        time.sleep(LOOK_S / _READS)
    spent = [
        (name, ticks - before[key][1])
        for key, (name, ticks) in _times().items()
        if key in before and key != os.getpid()
    ]
    return MachineLoad(
        average=reads[-1][0],
        running=max(0.0, statistics.fmean(running for _, running in reads) - 1),  # less ourselves
        cpus=os.cpu_count() or 1,
        programs=busy.greediest(spent),
    )


def wait_for_quiet(
    seconds: float,
    see: Callable[[], MachineLoad] = look,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> MachineLoad:
    """Return the last look when some in a row were quiet, or when the time is over."""
    end, quiet = clock() + seconds, 0
    while True:
        load = see()
        quiet = 0 if load.is_busy else quiet + 1
        left = end - clock()
        if quiet == _QUIET_LOOKS or left <= 0:
            return load
        sleep(min(_POLL_S, left))


def _read() -> tuple[float, int]:
    try:
        return busy.parse_load(LOAD.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return 0.0, 0


def _times() -> dict[int, tuple[str, int]]:
    """Return the name and the CPU time, in ticks, of each process that can be seen."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            text = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended, or is hidden
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        found[int(entry.name)] = (harmless.line(name), sum(map(int, fields[_STAT_TIMES])))
    return found
