"""Patterns of rules as they are looked for in a log, with a cheap look for their words first."""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Iterator

_SPACE = re.compile(r"(?<!\\) ([*+?]?)")
_SPACES, _MAYBE = r"\s{1,80}", r"\s{0,80}"
"""A break of a line and what it is indented by; without a limit, pages of blanks take hours."""
_SHORTEST = 4
_BREAKS = re.compile(r"(?:\\.|.)?(?:[*+?]|\{[0-9,]*\})|\\[a-zA-Z]|[.\[\](){}|^$ ]")


def search(pattern: str, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern in a text; a space in it fits line breaks, too."""
    words, compiled = _compiled(pattern)
    if not words or any(word in text for word in words):
        yield from compiled.finditer(text)


@functools.cache
def _compiled(pattern: str) -> tuple[tuple[str, ...], re.Pattern[str]]:
    spaced = _SPACE.sub(lambda match: _MAYBE if match[1] in {"*", "?"} else _SPACES, pattern)
    return words_of(pattern), re.compile(spaced, re.MULTILINE)


_ERRORS = re.compile(
    "|".join(
        re.escape(text)
        for number, name in sorted(errno.errorcode.items())
        for text in (os.strerror(number), name)
    ),
    re.IGNORECASE,
)


def is_error_number(text: str) -> bool:
    """Return true for words of errno and no others: anybody may say these, of anything."""
    return _LETTERS.search(_ERRORS.sub("", text)) is None


_LETTERS = re.compile(r"[A-Za-z]{3}")


def words_of(pattern: str) -> tuple[str, ...]:
    """Return words of which one stands wherever a pattern fits; none where that is not plain."""
    words = []
    for branch in _branches(pattern):
        runs = [
            run.replace("\\", "") for run in _BREAKS.sub("\n", _without_groups(branch)).split("\n")
        ]
        longest = max(runs, key=len, default="")
        if len(longest) < _SHORTEST:
            return ()
        words.append(longest)
    return tuple(words)


def _branches(pattern: str) -> list[str]:
    """Return the alternatives of a pattern that stand outside of all groups and classes."""
    found, depth, start, place, inside = [], 0, 0, 0, False
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 2
            continue
        if inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            place += pattern[place + 1 : place + 2] in {"]", "^"}
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "|" and not depth:
            found.append(pattern[start:place])
            start = place + 1
        place += 1
    return [*found, pattern[start:]]


def _without_groups(branch: str) -> str:
    """Return a branch with its groups and classes taken out."""
    kept, depth, place, inside = [], 0, 0, False
    while place < len(branch):
        sign = branch[place]
        pair = branch[place : place + 2] if sign == "\\" else sign
        if inside:
            inside = pair != "]"
        elif pair == "[":
            inside = True
            kept.append("[" * (not depth))
        elif pair == "(":
            depth += 1
            kept.append("(" * (depth == 1))
        elif pair == ")":
            depth -= 1
            kept.append(")" * (not depth))
        elif not depth:
            kept.append(pair)
        place += len(pair)
    return "".join(kept)
