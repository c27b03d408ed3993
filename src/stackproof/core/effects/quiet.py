"""A look at how busy this machine is, and waiting until it is quiet.

`watch` is what verbs that time something call before they begin.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stackproof.core import harmless
from stackproof.core.value import Value

# --------------------------------------------------------------------------------------------------
# How busy a machine is, and what that means for whoever wants to time something on it.
#
# Two ranks are timed on a CPU each, so a machine is quiet when that much of it is free.

_TIMED_RANKS = 2
_SPARE = 0.75
"""What may run beside them, in CPUs: less than that is this program and the daemons of a system."""


class MachineLoad(Value):
    """What else runs on a machine.

    `average` is the load of the last minute, `running` how many others wanted a CPU during a short
    look, `programs` are those that took most of it, the greediest first.
    """

    average: float
    running: float
    cpus: int
    programs: tuple[str, ...] = ()

    @property
    def others(self) -> float:
        """Return the number of programs that compete for the CPUs.

        The average still counts what has ended, and a look also sees what ends at once: both must
        show it.
        """
        return min(self.average, self.running)

    @property
    def is_busy(self) -> bool:
        """Return true where ranks that are timed would have to share their CPUs."""
        return self.others >= self.limit

    @property
    def limit(self) -> float:
        """Return the load of others from which on ranks would have to share their CPUs."""
        return max(_SPARE, self.cpus - _TIMED_RANKS + _SPARE)

    @property
    def factor(self) -> float:
        """Return about how many times longer two ranks take than on a quiet machine."""
        busy = (self.others + _TIMED_RANKS) / max(1, self.cpus)
        return max(1.0, busy) if self.is_busy else 1.0

    @property
    def text(self) -> str:
        """Return the load in words."""
        mostly = ", ".join(f"`{name}`" for name in self.programs)
        cpus = f"{self.cpus} CPU{'s' if self.cpus != 1 else ''}"
        return f"load {self.average:.2g} on {cpus}" + (f", mostly of {mostly}" if mostly else "")


def parse_load(text: str) -> tuple[float, int]:
    """Return the load of the last minute and how many want a CPU now, of /proc/loadavg (proc(5)).

    Zeros for a text that is none.
    """
    words = text.split()
    try:
        return float(words[0]), int(words[3].partition("/")[0])
    except (IndexError, ValueError):
        return 0.0, 0


def busy_sentence(load: MachineLoad, expected: str, option: str = "--wait-for-quiet 30m") -> str:
    """Return the sentence on a busy machine, with a remedy; `expected` is the likely outcome."""
    return (
        f"{load.text}: expect {expected}, a launch takes about {load.factor:.2g} times longer; "
        f"wait with {option}, or stop with Ctrl-C"
    )


def waiting_sentence(load: MachineLoad, expected: str, wait_s: float) -> str:
    """Return the sentence at the start of a wait: how long it may last, and for what."""
    return (
        f"{load.text}: {expected} would be likely; waiting for a quiet machine, up to "
        f"{_duration(wait_s)}: a load below {load.limit:.2g} by other programs (Ctrl-C stops)"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def quiet_sentence(load: MachineLoad, waited_s: float) -> str:
    """Return the sentence on the end of waiting for a quiet machine."""
    waited = _duration(waited_s)
    if load.is_busy:
        return f"still busy after {waited} ({load.text}): goes on all the same"
    return f"quiet after {waited} ({load.text})"


def greediest(seconds: Sequence[tuple[str, float]], most: int = 3) -> tuple[str, ...]:
    """Return the names of the programs that took most CPU time, those alike together."""
    sums: dict[str, float] = {}
    for name, value in seconds:
        sums[name] = sums.get(name, 0.0) + value
    taken = sorted(((value, name) for name, value in sums.items() if value > 0), reverse=True)
    return tuple(name for _, name in taken[:most])


LOAD = Path("/proc/loadavg")
"""Where the kernel tells the load; tests put another file here."""

LOOK_S = 0.5
"""How long a look takes."""

_READS = 10
_POLL_S = 5.0
_QUIET_LOOKS = 3
_STAT_FLAGS, _STAT_TIMES = 6, slice(11, 13)
"""Flags, user and system time among the fields after the name in /proc/PID/stat (proc(5))."""
_KERNEL_THREAD = 0x00200000
"""`PF_KTHREAD` of these flags (include/linux/sched.h): nobody can end such a thread."""


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
        tell(waiting_sentence(load, expected, wait_s))
        began = time.monotonic()
        load = wait_for_quiet(wait_s)
        tell(quiet_sentence(load, time.monotonic() - began))
    elif load.is_busy:
        tell(busy_sentence(load, expected, option))
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
        programs=greediest(spent),
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
        return parse_load(LOAD.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return 0.0, 0


def _times() -> dict[int, tuple[str, int]]:
    """Return the name and the CPU time, in ticks, of each program that somebody could end.

    Left out are threads of the kernel, and helpers of containers that run from memory.
    """
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
        if int(fields[_STAT_FLAGS]) & _KERNEL_THREAD or name.startswith("memfd:"):
            continue
        found[int(entry.name)] = (harmless.line(name), sum(map(int, fields[_STAT_TIMES])))
    return found
