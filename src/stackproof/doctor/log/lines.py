"""Printed text to plain lines: without labels of launchers, times and colours.

A line that a progress bar rewrote, with carriage returns, is one line for each of its states.
Line numbers stay those of the text, so that a line can be quoted by its number.
"""

from __future__ import annotations

import functools
import re

from stackproof.core import harmless, limits
from stackproof.core.value import Value

LONGEST = limits.LINE_KEPT.bytes
"""Characters of a line that are looked at."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)?|.)|[\x00\x08]"
)
_TIME = r"(?:[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)"
_DATE = rf"\[?[0-9]{{4}}[-/][0-9]{{2}}[-/][0-9]{{2}}[T ]{_TIME}"
_LABELS = tuple(
    re.compile(pattern)
    for pattern in (
        # A date of ISO, of ctime, or of syslog; seconds since the start, as the kernel and UCX say.
        _DATE + r"(?:Z| ?[+-][0-9]{2}:?[0-9]{2})?\]?[:,]?\s",
        rf"\[?[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ 0-9][0-9] {_TIME}(?: [0-9]{{4}})?\]?:?\s",
        rf"[A-Z][a-z]{{2}} [ 0-9][0-9] {_TIME} (?P<host>[\w.-]{{1,64}}) (?=kernel|slurm)",
        r"\[ {0,8}[0-9]{1,12}\.[0-9]{3,9}\]\s",
        rf"\[?{_TIME}\]?:?\s",
        # srun --label; Open MPI's --tag-output of two releases; Hydra's -prepend-rank.
        r"\s{0,5}(?P<rank>[0-9]{1,7}): ",
        r"\[[0-9]{1,9},(?P<rank>[0-9]{1,7})\](?:\[[^\]]{0,80}\])?<std\w{2,5}>:? ?",
        r"\[[\w.-]{1,64}@[0-9]{1,9},(?P<rank>[0-9]{1,7})\](?:\[[^\]]{0,80}\])?<std\w{2,5}>:? ?",
        r"\[(?P<rank>[0-9]{1,7})\] (?=\S)",
        # Who speaks: node and process, and thread.
        r"\[(?P<host>[A-Za-z][\w.-]{0,63}):[0-9]{1,8}(?::[0-9]{1,8}){0,2}\]:?\s{1,3}",
        # Several containers of one service.
        r"[a-z][\w.-]{0,40}-[0-9]{1,5}\s{1,20}\| ?",
    )
)
_RANK = re.compile(
    r"\[Rank (?P<bracket>[0-9]{1,7})\]|\b[Rr]ank[: ]{1,2}(?P<word>[0-9]{1,7})\b"
    r"|\bPE (?P<pe>[0-9]{1,7}):"
    r"|\[PE_(?P<cray>[0-9]{1,7})\]|\btasks? (?P<task>[0-9]{1,7})\b"
    r"|\bprocess (?P<process>[0-9]{1,7})\b"
)
_HOST = re.compile(
    r"srun: error: (?P<srun>[A-Za-z][\w.-]{0,63}): task"
    r"|\[job id [^\]]{0,40}\] \[[^\]]{0,40}\] \[(?P<cray>[\w.-]{1,64})\]"
    r"|[Nn]ode failure on (?P<lost>[\w.-]{1,64})|\bon node (?P<on>[A-Za-z][\w.-]{0,63})"
    r"|(?:Local host|Host|Node|Hostname):\s{1,12}(?P<box>[A-Za-z][\w.-]{0,63})"
    r"|^(?P<psm>[A-Za-z][\w.-]{0,63}):(?:pid|rank)[0-9]"
)


class PlainLine(Value):
    """A line of what was printed, with its number, and the rank and node of its label."""

    number: int
    text: str
    rank: int | None = None
    node: str = ""


class PlainLog(Value):
    """A log that was taken apart; `text` is all lines joined, those that were typed left empty."""

    lines: tuple[PlainLine, ...]
    text: str

    def number_at(self, place: int) -> int:
        """Return the number of the line that holds a place of the text."""
        index = self.text.count("\n", 0, place)
        return self.lines[index].number if index < len(self.lines) else 0


@functools.lru_cache(maxsize=16)
def plain(text: str, numbers: tuple[int, ...] = ()) -> PlainLog:
    """Return a text taken apart; `numbers` are those of its lines where some were left out."""
    raw = text.split("\n")
    given = numbers if len(numbers) == len(raw) else range(1, len(raw) + 1)
    lines = tuple(
        _line(number, state)
        for number, line in zip(given, raw, strict=True)
        for state in (_states(line) if "\r" in line else (line,))
    )
    return PlainLog(
        lines=lines, text="\n".join("" if _TYPED.match(line.text) else line.text for line in lines)
    )


def _states(line: str) -> list[str]:
    """Return the states of a line, in their order; a terminal shows the last one."""
    return [state for state in line.split("\r") if state.strip()] or [""]


def _line(number: int, text: str) -> PlainLine:
    """Return a line without its labels, with the rank and the node that they told."""
    text = harmless.shorten(text, LONGEST)
    if "\x1b" in text or "\0" in text or "\b" in text:
        text = _ESCAPES.sub("", text)
    rank, node = "", ""
    while text[:1] in _BEGINNINGS:
        match = next((m for m in (label.match(text) for label in _LABELS) if m), None)
        if match is None:
            break
        groups = match.groupdict()
        rank, node = rank or groups.get("rank") or "", node or groups.get("host") or ""
        text = text[match.end() :]
    return PlainLine(number=number, text=text, rank=int(rank) if rank else None, node=node)


_TYPED = re.compile(r"(?:\$|\+{1,3}|[\w@./~-]{0,40} [#$]|\w+@[\w.-]+[:~$#\]]\S{0,40}[$#]) \S")
"""A command line, with the prompt or the mark of a shell before it."""
_BEGINNINGS = frozenset(" [0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def who(line: PlainLine) -> tuple[int | None, str]:
    """Return the rank and the node that a line names, or was labelled by."""
    rank, node = line.rank, line.node
    if rank is None and (match := _RANK.search(line.text)):
        rank = int(next(group for group in match.groups() if group))
    if not node and (match := _HOST.search(line.text)):
        node = next(group for group in match.groups() if group)
    return rank, node
