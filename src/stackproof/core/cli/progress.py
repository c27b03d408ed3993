"""Progress on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from stackproof.core import harmless
from stackproof.core.cli import streams
from stackproof.core.errors import Problem
from stackproof.core.monitor import Event, Monitor
from stackproof.core.numbers import duration_text

_MARKS = {
    "started": "..", "progress": "..", "done": "ok", "piece": "ok", "skipped": "==", "failed": "!!",
}  # fmt: skip
_CLEAR = "\r\x1b[K"
_OPEN: list[bool] = []
"""Not empty while a live line stands on the terminal without an end: there is one terminal."""


def monitor(*, quiet: bool = False) -> Monitor:
    """Return the monitor that suits standard error."""
    return _Quiet() if quiet else _Lines(live=sys.stderr.isatty())


def end_line() -> None:
    """End the live line if there is one, so that what follows has a line of its own."""
    if _OPEN:
        _OPEN.clear()
        print(file=sys.stderr, flush=True)


class _Quiet:
    def __call__(self, event: Event) -> None:
        """Say nothing: errors still come, as exceptions."""


class _Lines:
    """One line per event; on a terminal the line of a running step is overwritten by its end."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._begun = time.monotonic()

    def __call__(self, event: Event) -> None:
        running = event.what in {"started", "progress"}
        if not self._live:
            # A log wants what happened, not what is about to; progress would only repeat itself.
            if not running:
                print(_line(event), file=sys.stderr, flush=True)
            return
        if event.what == "piece":
            return  # the live line goes on with the next piece
        elapsed = f"  {self._elapsed()}" if event.what == "progress" else ""
        line = _line(event, elapsed, width=_columns())
        text = (_CLEAR if _OPEN else "") + line + ("" if running else "\n")
        streams.unguarded(sys.stderr).write(text)
        sys.stderr.flush()
        _OPEN[:] = [True] if running else []

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._begun)
        return f"{seconds // 60}:{seconds % 60:02d}"


def _line(event: Event, elapsed: str = "", *, width: int | None = None) -> str:
    """Return an event as a line; where it is too wide its text is cut, and the times stay."""
    count = f"[{event.done}/{event.total}] " if event.total else ""
    head = f"{_MARKS.get(event.what, '  ')} {count}{event.name}"
    text = f"  {event.text}" if event.text else ""
    unchanged = "  unchanged" if event.what == "skipped" else ""
    took = f"  {event.seconds:.1f} s" if event.seconds is not None else ""
    left = f"  about {duration_text(event.left_s)} left" if event.left_s else ""
    left += f" {event.left_of}" if left and event.left_of else ""
    tail = f"{unchanged}{took}{elapsed}{left}"
    if width is not None and len(head) + len(text) + len(tail) >= width:
        text = text[: max(width - len(head) - len(tail) - 2, 0)] + "…"
    whole = harmless.line(f"{head}{text}{tail}")
    return whole if width is None or len(whole) < width else f"{whole[: width - 2]}…"


def _columns() -> int:
    import shutil  # noqa: PLC0415 - only on a terminal

    return shutil.get_terminal_size().columns


def print_notes(*notes: Problem) -> None:
    """Print notes: each should be known and keeps nobody from going on."""
    for note in notes:
        print(note.worded("note"), file=sys.stderr)
