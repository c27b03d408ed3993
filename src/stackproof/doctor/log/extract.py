"""A log of any length to the part that is kept: its beginning, its end, and what complains between.

Of a line that a progress bar rewrote again and again, what it showed last is kept, and each
state that complains, with carriage returns between them; of a very long one its two ends.

Bytes come in pieces, so that a log of gigabytes needs the memory of a small one. Words that a
complaint holds are searched for in whole pieces first; only lines that have one are looked at.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from stackproof.core import harmless, limits
from stackproof.core.value import Value

_EDGE = limits.LOG_KEPT.bytes // 4
_BETWEEN = limits.LOG_KEPT.bytes // 3
_LONGEST = 4 * limits.LINE_KEPT.bytes
"""More than is kept in the end: what names a secret may stand before what is."""
_OVERHEAD = 16
"""What a line costs beside its bytes."""
_MOST_LOOKED_AT = 200_000
"""Lines with such a word that are looked at; a log that has more says the same again."""
_MOST_STATES_LOOKED_AT = 500_000
"""The same of states of lines."""
_MOST_STATES = 32
"""States of one line that are kept."""

WORDS = (
    b"error", b"fail", b"fatal", b"abort", b"cannot", b"can't", b"could not", b"unable", b"denied",
    b"not found", b"no such", b"killed", b"signal", b"terminated", b"cancelled", b"refused",
    b"timed out", b"timeout", b"exceeded", b"exhaust", b"out of memory", b"oom", b"undefined",
    b"unreachable", b"mismatch", b"exception", b"traceback", b"unrecognized", b"unknown",
    b"not available", b"no space", b"unexpected", b"invalid", b"undeliverable", b"ptlte",
    b"bus err", b"warn", b"version", b"singleton", b"exited", b" of 1", b"/1", b"size: 1",
    b'"kind":"start', b'"kind":"end', b'"kind":"error',
)  # fmt: skip
_COUNTS = frozenset({b" of 1", b"/1", b"size: 1"})
"""Words of a rank that is alone, which stand in every progress bar, too."""


def _any_of(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, sorted(words, key=len, reverse=True))))


_WORD = _any_of(WORDS)
_WORD_OF_STATE = _any_of({*WORDS} - _COUNTS)
_VARYING = re.compile(rb"0x[0-9a-f]+|[0-9]+")
_WRONG = re.compile(rb'"errors":[1-9]|\bfail\s*$')
_OF_A_KEY = re.compile(rb"\s*[A-Za-z0-9+/=]{40,}(?: \.\.\. [A-Za-z0-9+/=]+)?\s*")
_LINE_ENDS = re.compile(rb"(?<!\r)\r+\n")
_NO_LETTERS = re.compile(rb"[^a-z]+")
_BLANK = re.compile(rb"(?:\x1b\[[0-?]*[ -/]*[@-~]|[\s\0\b])*")
_RECORD = b'{"kind":"'


class LogExtract(Value):
    """What is kept of a log; `numbers` are those of its lines where some were left out."""

    text: str
    numbers: tuple[int, ...] = ()


class LogReader:
    """Takes a log in pieces and keeps what matters of it."""

    def __init__(self) -> None:
        self._rest = b""
        self._number = 0
        self._first: list[bytes] = []
        self._first_bytes = 0
        self._between: list[tuple[int, bytes]] = []
        self._between_bytes = 0
        self._last: deque[tuple[int, bytes]] = deque()
        self._last_bytes = 0
        self._shapes: set[bytes] = set()
        self._looked_at = 0
        self._states_looked_at = 0

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the log."""
        data = self._rest + piece if self._rest else piece
        if b"\r" in data:
            data = _LINE_ENDS.sub(b"\n", data)
        whole, newline, self._rest = data.rpartition(b"\n")
        if len(self._rest) > _LONGEST:
            done, returned, state = self._rest.rpartition(b"\r")
            self._rest = self._states(done) + returned + harmless.shorten(state, _LONGEST)
        if not newline:
            return
        if b"\r" in whole:
            whole = self._shown(whole)
        if self._first_bytes < _EDGE:
            place = 0
            while place <= len(whole) and self._first_bytes < _EDGE:
                end = whole.find(b"\n", place)
                end = len(whole) if end < 0 else end
                self._number += 1
                self._first.append(_ends(whole[place:end]))
                self._first_bytes += len(self._first[-1]) + _OVERHEAD
                place = end + 1
            if place > len(whole):
                return
            whole = whole[place:]
        self._search(whole)

    def _shown(self, block: bytes) -> bytes:
        """Return a block with the states of each line that are kept."""
        parts, done = [], 0
        while (place := block.find(b"\r", done)) >= 0:
            start = block.rfind(b"\n", done, place) + 1 or done
            end = block.find(b"\n", place)
            end = len(block) if end < 0 else end
            parts += [block[done:start], self._states(block[start:end])]
            done = end
        return b"".join((*parts, block[done:]))

    def _states(self, line: bytes) -> bytes:
        """Return the states of a line that complain, each wording once, and the last one."""
        low = line.lower()
        kept: dict[int, bytes] = {}
        shapes: set[bytes] = set()
        place = 0
        while (match := _WORD_OF_STATE.search(low, place)) and len(kept) < _MOST_STATES:
            start = low.rfind(b"\r", 0, match.start()) + 1
            place = low.find(b"\r", match.end())
            place = len(low) if place < 0 else place
            shape = _NO_LETTERS.sub(b"", low[start : min(place, start + 200)])
            if shape not in shapes:
                shapes.add(shape)
                kept[start] = line[start:place]
            self._states_looked_at += 1
            if self._states_looked_at > _MOST_STATES_LOOKED_AT:
                break
        end = len(line)
        for _ in range(_MOST_STATES):
            start = line.rfind(b"\r", 0, end) + 1
            if start == 0 or not _BLANK.fullmatch(line, start, end):
                kept[start] = line[start:end]
                break
            end = start - 1
        return b"\r".join(harmless.shorten(state, _LONGEST) for state in kept.values())

    def _search(self, block: bytes) -> None:
        """Keep the lines of a block that complain, and its end."""
        if self._between_bytes < _BETWEEN and self._looked_at < _MOST_LOOKED_AT:
            self._keep_complaints(block)
        lines = block.count(b"\n") + 1
        start = max(0, len(block) - _EDGE)
        # Empty lines cost more than their bytes.
        if block.count(b"\n", start) > _EDGE // _OVERHEAD:
            start = max(0, len(block) - _EDGE // _OVERHEAD)
        start = block.rfind(b"\n", 0, start) + 1 if start else 0
        number = self._number + block.count(b"\n", 0, start)
        for line in block[start:].split(b"\n"):
            number += 1
            self._last.append((number, _ends(line)))
            self._last_bytes += len(self._last[-1][1]) + _OVERHEAD
        while self._last_bytes > _EDGE:
            self._last_bytes -= len(self._last.popleft()[1]) + _OVERHEAD
        self._number += lines

    def _keep_complaints(self, block: bytes) -> None:
        low = block.lower()
        number, counted, place = self._number, 0, 0
        while match := _WORD.search(low, place):
            start = low.rfind(b"\n", 0, match.start()) + 1
            end = low.find(b"\n", match.end())
            end = len(low) if end < 0 else end
            number += low.count(b"\n", counted, start)
            counted, place = start, end
            self._looked_at += 1
            shape = _VARYING.sub(b"", low[start : min(end, start + 200)])
            own = low.find(_RECORD, start, end) >= 0
            if self._telling(low, start, end) if own else shape not in self._shapes:
                self._shapes.add(shape)
                # A box of a launcher, or a stack of errors, goes on for some lines.
                self._keep(block, start, number + 1)
            if self._between_bytes >= _BETWEEN or self._looked_at >= _MOST_LOOKED_AT:
                return

    def _telling(self, low: bytes, start: int, end: int) -> bool:
        """Return true where a record says more than that a series was measured."""
        line = low[start : min(end, start + _LONGEST)]
        return b'"kind":"series' not in line or _WRONG.search(line) is not None

    def _keep(self, block: bytes, start: int, number: int) -> None:
        last = self._between[-1][0] if self._between else 0
        for each in range(number, number + _AFTER):
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            if each > last:
                self._between.append((each, _ends(block[start:end])))
                self._between_bytes += len(self._between[-1][1]) + _OVERHEAD
            start = end + 1
            if start > len(block):
                return

    def extract(self) -> LogExtract:
        """Return the kept lines; call it when the log has ended."""
        if self._rest:
            rest, self._rest = self._shown(self._rest.rstrip(b"\r")), b""
            if self._first_bytes < _EDGE:
                self._number += 1
                self._first.append(_ends(rest))
            else:
                self._search(rest)
        kept = list(enumerate(self._first, 1))
        for part in (self._between, self._last):
            reached = kept[-1][0] if kept else 0
            kept += [(number, line) for number, line in part if number > reached]
        numbers = tuple(number for number, _ in kept)
        whole = len(kept) == self._number
        # Of a key that was cut apart no line may stay.
        lines = (line if whole or not _OF_A_KEY.fullmatch(line) else b"" for _, line in kept)
        text = b"\n".join(lines).decode(errors="replace")
        return LogExtract(text=text, numbers=() if whole else numbers)


def _ends(line: bytes) -> bytes:
    """Return the two ends of a long line; the states of one are short already."""
    return line if b"\r" in line else harmless.shorten(line, _LONGEST)


_AFTER = 8
"""Lines that are kept from one that complains on."""
