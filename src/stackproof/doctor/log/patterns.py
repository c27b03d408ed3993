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
_TOKENS = re.compile(
    r"[^\\\[()|]+|\\.|\[(?:\]|\^.?)?(?:\\.|[^\]\\])*\]|\((?:\?(?:P<\w+>|<?[=!]|:))?|.", re.DOTALL
)
"""Plain characters, an escape, a class of characters, or the beginning of a group."""
_COMMON = ("rror", "RROR", "fail", "ailed", "cannot", "signal")
_LETTERS = re.compile(r"[a-z]{3}")


def search(pattern: str, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern in a text; a space in it fits line breaks, too.

    To compile a pattern takes longer than to see that its words are not there.
    """
    words = words_of(pattern)
    if not words or any(word in text for word in words):
        yield from _compiled(pattern).finditer(text)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    spaced = _SPACE.sub(lambda match: _MAYBE if match[1] in {"*", "?"} else _SPACES, pattern)
    return re.compile(spaced, re.MULTILINE)


@functools.cache
def words_of(pattern: str) -> tuple[str, ...]:
    """Return words of which one stands wherever a pattern fits; none where that is not plain."""
    return _words(_TOKENS.findall(pattern))


def _words(signs: list[str]) -> tuple[str, ...]:
    each = [_told_by(branch, groups) for branch, groups in _alternatives(signs)]
    return () if () in each else tuple(word for words in each for word in words)


def _alternatives(signs: list[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each alternative, with brackets for groups and classes, and groups that must be there.

    A group that is looked for ahead or behind is none of them.
    """
    branch, depth, start = "", 0, 0
    groups: list[list[str]] = []
    for place, sign in enumerate(signs):
        if sign[0] == "(":
            start = start if depth else place
            depth += 1
        elif sign == ")":
            depth -= 1
            if not depth:
                branch += "()"
                after = "".join(signs[place + 1 : place + 2])
                if signs[start][-1] not in "=!" and not after.startswith(("?", "*", "{")):
                    groups.append(signs[start + 1 : place])
        elif sign == "|" and not depth:
            yield branch, groups
            branch, groups = "", []
        elif not depth:
            branch += sign[0] if sign[0] == "[" else sign
    yield branch, groups


def _told_by(branch: str, groups: list[list[str]]) -> tuple[str, ...]:
    """Return the longest run of characters of an alternative, or the words of a group in it.

    A group is asked where there is no run, or one that most complaints have.
    """
    runs = (run.replace("\\", "") for run in _BREAKS.sub("\n", branch).split("\n"))
    best = max(((run,) for run in runs if len(run) >= _SHORTEST), key=_worth, default=())
    if best and _worth(best)[0]:
        return best
    return max(filter(None, (best, *map(_words, groups))), key=_worth, default=())


def _worth(words: tuple[str, ...]) -> tuple[bool, int]:
    common = any(word.rstrip(":,").endswith(_COMMON) for word in words)
    return not common, min(map(len, words))


def is_error_number(text: str) -> bool:
    """Return true for words of errno and no others: anybody may say these, of anything."""
    rest = text.lower()
    for words in _error_words():
        rest = rest.replace(words, "")
    return _LETTERS.search(rest) is None


@functools.cache
def _error_words() -> tuple[str, ...]:
    texts = (
        text for number, name in errno.errorcode.items() for text in (os.strerror(number), name)
    )
    return tuple(sorted(map(str.lower, texts), key=len, reverse=True))
