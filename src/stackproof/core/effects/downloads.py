"""How far a file on its way is: bytes and rate while it runs, one line when it is there.

Where another program downloads (pip), how much has come is seen by the folder that it writes into;
how much there is to come is known only where a server says it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects.run import Runner
from stackproof.core.monitor import Event, Monitor
from stackproof.core.numbers import disk_text
from stackproof.core.value import replace

_EVERY_S = 0.25


class Transfer:
    """One file on its way: say with `at` how many bytes are there. `what` is what is done to it."""

    def __init__(self, name: str, monitor: Monitor, what: str = "download") -> None:
        self._name = name
        self._monitor = monitor
        self._what = what
        self._bytes = 0
        self._first: int | None = None
        self._said = self._begun = time.monotonic()

    def at(self, count: int, total: int | None = None) -> None:
        """Say that so many bytes have come, of how many if that is known; not more than is read.

        The first call says where it goes on, so that the rate is that of this time.
        """
        if self._first is None:
            self._first = count if total else 0
        self._bytes = count
        now = time.monotonic()
        if count and now - self._said >= _EVERY_S:
            self._said = now
            rate = (count - self._first) / max(now - self._begun, 1e-9)
            of = f" of {disk_text(total)}" if total else ""
            left_s = (total - count) / rate if total and rate > 0 else None
            text = f"{disk_text(count)}{of}, {disk_text(round(rate))}/s"
            self._tell("progress", text, left_s=left_s)

    def begin(self) -> None:
        """Say that it begins."""
        self._tell("started", "")

    def there(self) -> None:
        """Say that the file is there."""
        took = time.monotonic() - self._begun
        self._tell("piece", disk_text(self._bytes), seconds=took)

    def _tell(
        self, what: str, text: str, *, seconds: float | None = None, left_s: float | None = None
    ) -> None:
        words = f"{self._name}  {text}" if text else self._name
        self._monitor(Event(what=what, name=self._what, text=words, seconds=seconds, left_s=left_s))


@contextmanager
def downloading(name: str, monitor: Monitor, what: str = "download") -> Iterator[Transfer]:
    """Tell a monitor that a file is on its way, and, unless that fails, that it is there."""
    transfer = Transfer(name, monitor, what)
    transfer.begin()
    yield transfer
    transfer.there()


def run_watched(
    command: Command, folder: Path, runner: Runner, tell: Callable[[int], None]
) -> Completed:
    """Run a program that downloads one file into a folder; tell now and then how much is there.

    Its temporary files are below that folder meanwhile, so that they are seen, too.
    """
    room = Path(tempfile.mkdtemp(dir=folder))
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_EVERY_S):
            tell(_largest_below(folder))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        env = command.env.then(EnvPatch(set={"TMPDIR": str(room)}))
        return runner(replace(command, env=env))
    finally:
        ended.set()
        watcher.join()
        files.remove(room)


def _largest_below(folder: Path) -> int:
    """Return the size of the largest file: the one that comes, be it in two places for a moment."""
    largest = 0
    for path, _, names in os.walk(folder):  # which passes over folders that go meanwhile
        for name in names:
            with contextlib.suppress(OSError):  # moved or deleted meanwhile
                largest = max(largest, os.lstat(os.path.join(path, name)).st_size)
    return largest
