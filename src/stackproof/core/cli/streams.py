"""Standard streams as programs are started with: closed, or for a few characters only.

A message is never lost to the locale: what an encoding lacks is written in its nearest letters, in
JSON as escapes, and names of files that are no text keep their bytes.
"""

from __future__ import annotations

import codecs
import functools
import io
import os
import sys
import time
from collections.abc import Sequence

from stackproof.core import harmless

# --------------------------------------------------- Rows as a table, and times as people say them


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heads, with columns as wide as their widest cell."""
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        print(harmless.line("  ".join(cells).rstrip()))


def ago_text(when: float) -> str:
    """Return the age of a time, which is in seconds since 1970: `3 d ago`, `now`."""
    seconds = max(0.0, time.time() - when)
    for name, unit in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name} ago"
    return "now"


TYPE_CHECKING = False  # `typing` takes longer to import than `--version` may take
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

# What is replaced: Python's own choices, and ours. Who asks for another one gets it.
_REPLACED = frozenset({"strict", "surrogateescape", "stackproof-text"})
# Dots, dashes, arrows, signs, marks, quotes and bars that our own texts use.
_LETTERS = {
    "\u2026": "...", "\u2013": "-", "\u2014": "-", "\u2011": "-", "\u2192": "->", "\u2190": "<-",
    "\u00d7": "x", "\u2264": "<=", "\u2265": ">=", "\u2248": "~", "\u00b1": "+-", "\u00b7": ".",
    "\u00b5": "u", "\u03bc": "u", "\u25cf": "*", "\u2715": "x", "\u25cb": "o", "\u2713": "ok",
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2588": "#", "\u2500": "-",
    "\u2501": "-", "\u2502": "|",
}  # fmt: skip


def make_usable() -> None:
    """Open what is closed of the three standard streams, and make them take every character.

    Otherwise the next file that is opened would get the number of a stream, and its messages.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            _open_null(number)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    codecs.register_error("stackproof-text", _as_text)
    codecs.register_error("stackproof-json", _as_json)
    _set_errors("stackproof-text")
    for stream in (sys.stdout, sys.stderr):
        _guard(stream, harmless.text)


def prepare_for_json() -> None:
    """Write what the encoding of standard output lacks as JSON does."""
    _set_errors("stackproof-json")
    _guard(sys.stdout, harmless.json_text)


def unguarded(stream: TextIO) -> TextIO:
    """Return a stream for what a terminal is to obey; what others wrote is made harmless before."""
    return _Unguarded(stream)  # type: ignore[return-value]  # has the rest of a stream, too


class _Unguarded:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if isinstance(self._stream, io.TextIOWrapper):
            return io.TextIOWrapper.write(self._stream, text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _guard(stream: TextIO, made_harmless: Callable[[str], str]) -> None:
    """Let nothing through to a stream that a terminal would obey, wherever it is from."""
    if isinstance(stream, io.TextIOWrapper):
        plain = functools.partial(io.TextIOWrapper.write, stream)
        stream.write = lambda text: plain(made_harmless(text))  # type: ignore[method-assign]


def _set_errors(name: str) -> None:
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors in _REPLACED:
        stream.reconfigure(errors=name)


def _open_null(number: int) -> None:
    descriptor = os.open(os.devnull, os.O_RDWR)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


def _as_text(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the replacement of characters that cannot be encoded; see codecs.register_error."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    first = error.object[error.start]
    if "\udc80" <= first <= "\udcff":  # a byte of a name that is no text
        return bytes([ord(first) - 0xDC00]), error.start + 1
    return _LETTERS.get(first, "?"), error.start + 1


def _as_json(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return a character as JSON escapes it, by UTF-16 units."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start].encode("utf-16-be", "surrogatepass")
    escaped = (f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return "".join(escaped), error.start + 1
