"""How busy a machine is, and what that means for whoever wants to time something on it.

Two ranks are timed on a CPU each, so a machine is quiet when that much of it is free.
"""

from __future__ import annotations

from collections.abc import Sequence

from stackproof.core.value import Value

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
        return max(1.0, (self.others + _TIMED_RANKS) / max(1, self.cpus))

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
