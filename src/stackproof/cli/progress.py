"""Progress on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from stackproof.monitor import Event, Monitor

_MARKS = {"started": "..", "done": "ok", "skipped": "==", "failed": "!!", "note": "  "}
_CLEAR = "\r\x1b[K"


def monitor(*, quiet: bool = False) -> Monitor:
    """Return the monitor that suits standard error."""
    return _Quiet() if quiet else _Lines(live=sys.stderr.isatty())


class _Quiet:
    def __call__(self, event: Event) -> None:
        """Say nothing: errors still come, as exceptions."""


class _Lines:
    """One line per event; on a terminal the line of a running step is overwritten by its end."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._pending = False
        self._begun = time.monotonic()

    def __call__(self, event: Event) -> None:
        count = f"[{event.done}/{event.total}] " if event.total else ""
        took = f"  {event.seconds:.1f} s" if event.seconds is not None else ""
        text = f"  {event.text}" if event.text else ""
        unchanged = "  unchanged" if event.what == "skipped" else ""
        line = f"{_MARKS.get(event.what, '  ')} {count}{event.name}{text}{unchanged}{took}"
        if event.what == "progress":
            line = f".. {count}{event.name}{text}  {self._elapsed()}"
        running = event.what in {"started", "progress"}
        if not self._live:
            # A log wants what happened, not what is about to; progress would only repeat itself.
            if not running:
                print(line, file=sys.stderr, flush=True)
            return
        sys.stderr.write((_CLEAR if self._pending else "") + _fit(line))
        sys.stderr.write("" if running else "\n")
        sys.stderr.flush()
        self._pending = running

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._begun)
        return f"{seconds // 60}:{seconds % 60:02d}"


def _fit(line: str) -> str:
    import shutil  # noqa: PLC0415 - only on a terminal

    width = shutil.get_terminal_size().columns
    return line if len(line) < width else line[: width - 2] + "…"
