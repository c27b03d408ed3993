"""Verbs killed at a moment of their work, and what of them may not be there afterwards.

    moments = Moments(random.Random(1), whole_s)
    for after_s in moments(100): guarded.kill(after_s, "pack", image, "-o", out)
    assert killing.left(guarded) == []

A kill is SIGKILL to the whole group of a verb. `left` are processes, mounts and loop devices that have
to do with the place; what lies in its folders is for the test of the verb to judge.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from guarded import Guarded

KILLS = int(os.environ.get("STACKPROOF_KILLS") or 10)
"""How often each verb is killed; `nox -s attacks` says 100. Build and bench get a fifth."""
_PATIENCE_S = 600


def duration(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def moments(name: str, whole_s: float, count: int = KILLS) -> Iterator[float]:
    """Give moments within what takes so long, one from each of as many equal parts, in any order."""
    choose = random.Random(name)
    parts = list(range(count))
    choose.shuffle(parts)
    yield from (whole_s * (part + choose.random()) / count for part in parts)


def left(guarded: Guarded) -> list[str]:
    """Return the remains at a place, once processes had time to end."""
    end = time.monotonic() + _PATIENCE_S
    while (told := [*_processes(guarded.work), *_mounts(guarded.work)]) and time.monotonic() < end:
        time.sleep(0.02)
    return told


def _processes(place: Path) -> Iterator[str]:
    """Name processes that work in a place, or have a path of it among their words."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            words = (process / "cmdline").read_bytes()
            where = os.readlink(process / "cwd")
        except OSError:  # it has ended, or is another user's
            continue
        if os.fsencode(place) in words or f"{where}/".startswith(f"{place}/"):
            yield f"process {process.name}: {words!r}"


def _mounts(place: Path) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if f" {place}" in line:
            yield f"mount: {line}"
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if backing.read_text().startswith(str(place)):
                yield f"loop device: {backing.parts[3]}"
        except OSError:  # freed meanwhile
            continue
