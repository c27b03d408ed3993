"""Printed text to plain lines: without labels of launchers, times and colours.

A line that a progress bar rewrote, with carriage returns, is one line for each of its states.
Line numbers stay those of the text, so that a line can be quoted by its number.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from stackproof.core import harmless, limits
from stackproof.core.value import Value, replace

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
        # A number: a rank of srun --label or Hydra's -prepend-rank, or the test of ctest -V.
        r"\s{0,5}(?P<number>[0-9]{1,7}): ",
        r"\[(?P<number>[0-9]{1,7})\] (?=\S)",
        # A step of ninja, which counts from 1; Open MPI's --tag-output of two releases; torchrun.
        r"\[[1-9][0-9]{0,5}/[0-9]{1,6}\] ",
        r"\[[0-9]{1,9},(?P<rank>[0-9]{1,7})\](?:\[[^\]]{0,80}\])?<std\w{2,5}>:? ?",
        r"\[[\w.-]{1,64}@[0-9]{1,9},(?P<rank>[0-9]{1,7})\](?:\[[^\]]{0,80}\])?<std\w{2,5}>:? ?",
        r"\[rank(?P<rank>[0-9]{1,7})\]: ?",
        # Who speaks: node and process, and thread.
        r"\[(?P<host>[A-Za-z][\w.-]{0,63}):[0-9]{1,8}(?::[0-9]{1,8}){0,2}\]:?\s{1,3}",
        # Containers of a service, and of a pod.
        r"[a-z][\w.]{0,40}[_-][\w.-]{1,40}\s{1,20}\| ?",
        r"\[pod/[\w.-]{1,128}/[\w.-]{1,64}\] ",
    )
)
_RANK = re.compile(
    r"\[Rank (?P<bracket>[0-9]{1,7})\]|(?<!from )\b[Rr]ank[: ]{1,2}(?P<word>[0-9]{1,7})\b"
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
    labelled = [
        _line(number, state)
        for number, line in zip(given, raw, strict=True)
        for state in (_states(line) if "\r" in line else (line,))
    ]
    lines = tuple(_with_ranks(labelled))
    return PlainLog(
        lines=lines, text="\n".join("" if _TYPED.match(line.text) else line.text for line in lines)
    )


def _states(line: str) -> list[str]:
    """Return the states of a line, in their order; a terminal shows the last one."""
    return [state for state in line.split("\r") if state.strip()] or [""]


def _with_ranks(labelled: list[tuple[PlainLine, tuple[int, ...]]]) -> Iterator[PlainLine]:
    """Yield lines with their numbers as ranks, where the same place numbers another line 0.

    Ranks are counted from 0. Tests of ctest and lines of a listing are not.
    """
    ranked = {
        place for _, numbers in labelled for place, number in enumerate(numbers) if number == 0
    }
    for line, numbers in labelled:
        ranks = [number for place, number in enumerate(numbers) if place in ranked]
        yield replace(line, rank=ranks[0]) if ranks and line.rank is None else line


def _line(number: int, text: str) -> tuple[PlainLine, tuple[int, ...]]:
    """Return a line without its labels, with the rank and the node they told, and their numbers."""
    text = harmless.shorten(text, LONGEST)
    if "\x1b" in text or "\0" in text or "\b" in text:
        text = _ESCAPES.sub("", text)
    rank, node = "", ""
    numbers: list[int] = []
    while text[:1] in _BEGINNINGS:
        match = next((m for m in (label.match(text) for label in _LABELS) if m), None)
        if match is None:
            break
        groups = match.groupdict()
        rank, node = rank or groups.get("rank") or "", node or groups.get("host") or ""
        numbers += [int(groups["number"])] if "number" in groups else []
        text = text[match.end() :]
    line = PlainLine(number=number, text=text, rank=int(rank) if rank else None, node=node)
    return line, tuple(numbers)


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
