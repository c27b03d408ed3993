"""Lines on standard output that are not the program's: warnings of the MPI, labels, or worse."""

from __future__ import annotations

import re

MAX_LINES = 200
MAX_LENGTH = 300

# What launchers put before each line: `srun -l` a task number and a colon, hydra's `-l` a rank in
# brackets, Open MPI's `--output` and `--tag-output` job, rank and stream, with `--timestamp-output`
# the time before it, in brackets since Open MPI 5.
_TIME = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]?"
_RANK = r"\[(?:[\w.-]+@)?\d+,\d+\](?:\[[\w.-]+:\d+\])?|\[\d+\]"
_LABEL = re.compile(
    rf"\s*(?:\d+: ?|(?:{_TIME})?(?P<label>(?:{_RANK})?<std(?:out|err)>):? ?|\[\d+\] ?)"
)


def split_label(line: str) -> tuple[str, str]:
    """Return what a launcher put before a line, without the time, and the rest of the line.

    The rest is without a carriage return.
    """
    match = _LABEL.match(line)
    if match is None:
        return "", line.rstrip("\r")
    return (match["label"] or match[0]).strip(), line[match.end() :].rstrip("\r")


class Garbage:
    """Lines kept to be shown; only so many, and only so long, however much there was."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._dropped = 0

    def add(self, line: str) -> None:
        """Keep a line unless it is blank."""
        text = line.strip()
        if not text:
            return
        if len(self._lines) == MAX_LINES:
            self._dropped += 1
            return
        self._lines.append(text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…")

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines, with a last one that counts those left out."""
        more = (f"… and {self._dropped} more lines",) if self._dropped else ()
        return (*self._lines, *more)
