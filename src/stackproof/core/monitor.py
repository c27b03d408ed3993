"""Progress as events, so that no arrow and no effect prints.

A monitor receives events; the command line shows them (as lines, as a live display or as JSON
lines), tests record them.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.core.value import Value


class Event(Value):
    """Something that happened: `what` is started, done, skipped, failed, progress, piece or note.

    A piece is one of many of a long work that is done: a log wants a line for it, and on a terminal
    the live line goes on. `seconds` is how long it took, `left_s` about how long the rest takes:
    all of it; `left_of` is a word after it, such as `at most`.
    """

    what: str
    name: str
    text: str = ""
    done: int | None = None
    total: int | None = None
    seconds: float | None = None
    left_s: float | None = None
    left_of: str = ""


class Monitor(Protocol):
    """Whoever wants to know."""

    def __call__(self, event: Event) -> None:
        """Take one event."""


def null_monitor(event: Event) -> None:
    """Drop every event."""
    del event
