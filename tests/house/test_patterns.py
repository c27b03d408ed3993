"""No pattern takes much longer for a text than its length says, whatever the text is.

A pattern that tries each place of a text anew, and from each goes on to its end, takes hours for
some hundred kilobytes, and nothing can interrupt it. Texts are made from the pattern itself: what
it needs to begin, again and again, without what it needs to end.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from housefiles import MODULES, PACKAGE, tree

LENGTH = 20_000
MOST_S = 0.1
"""Seconds of a processor for one text, of which a usual pattern takes a hundredth."""
GROWTH = 3.0
"""How many times as long a text of twice the length may take; where the square counts it is 4."""
_OF_SHORT_TEXTS = {
    ("launch/launchers/messages.py", "_UNREACHABLE"): "lines are cut before",
    ("launch/launchers/messages.py", "_NO_PROGRAM"): "lines are cut before",
    ("launch/effects/leftovers.py", "_NAMES"): "names of files",
    ("report/cli/compare.py", "_WORD"): "a line of our own",
}
_BRANCHES = 24
_ANYWHERE = {"search", "finditer", "findall", "sub", "subn", "split"}
_OF_CATEGORIES = {
    _constants.CATEGORY_DIGIT: "1", _constants.CATEGORY_SPACE: " ", _constants.CATEGORY_WORD: "a",
    _constants.CATEGORY_NOT_SPACE: "a", _constants.CATEGORY_NOT_WORD: " ", _constants.CATEGORY_NOT_DIGIT: "a",
}  # fmt: skip


@functools.cache
def ways(path: Path | None) -> dict[str, set[str]]:
    """Return, by the name of a pattern, the methods that a module, or any, calls of it."""
    found: dict[str, set[str]] = {}
    for other in (path,) if path else MODULES:
        for node in ast.walk(tree(other)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                inner = node.value
                name = inner.id if isinstance(inner, ast.Name) else inner.attr
                found.setdefault(name, set()).add(node.attr)
    return found


def compiled(path: Path) -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Yield the patterns of a module: name, pattern, and whether it looks at every place.

    One that is handed on is taken to do so.
    """
    dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    module = importlib.import_module(dotted.removesuffix(".__init__"))
    for name, value in vars(module).items():
        several = value.values() if isinstance(value, dict) else value
        for pattern in several if isinstance(several, list | tuple) else (value,):
            if isinstance(pattern, re.Pattern):
                used = ways(path if name.startswith("_") else None).get(name, set())
                yield name, pattern, bool(used & _ANYWHERE) or not used & {"match", "fullmatch"}


def samples(parsed: Sequence[Any]) -> Iterator[str]:
    """Yield short texts that parts of a pattern match, one for each way through its branches."""
    found = [""]
    for operation, argument in parsed:
        kind = str(operation)
        pieces = [""]
        if kind == "LITERAL":
            pieces = [chr(argument)]
        elif kind == "NOT_LITERAL":
            pieces = ["a" if argument != ord("a") else "b"]
        elif kind == "ANY":
            pieces = ["a"]
        elif kind == "IN":
            pieces = list(islice(_members(argument), 2))
        elif kind in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, most, inner = argument
            count = max(least, 1) if most else 0
            pieces = [one * min(count, 40) for one in samples(inner)]
        elif kind == "SUBPATTERN":
            pieces = list(samples(argument[3]))
        elif kind == "ATOMIC_GROUP":
            pieces = list(samples(argument))
        elif kind == "BRANCH":
            pieces = [one for branch in argument[1] for one in samples(branch)]
        most = max(_BRANCHES, len(pieces))
        found = [before + piece for piece in pieces for before in found][:most]
    yield from dict.fromkeys(found)


def _members(members: Sequence[Any]) -> Iterator[str]:
    refused = members[0][0] is _constants.NEGATE
    if refused:
        given = {chr(value) for kind, value in members if kind is _constants.LITERAL}
        yield from (word for word in "a-. x1" if word not in given)
        return
    for kind, value in members:
        if kind is _constants.LITERAL:
            yield chr(value)
        elif kind is _constants.RANGE:
            yield chr(value[0])
        elif kind is _constants.CATEGORY:
            yield _OF_CATEGORIES[value]


def texts(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """Yield how texts begin, and what follows again and again: a match begins at many places."""
    seen = set()
    for whole in samples(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)):
        for end in range(1, min(len(whole), 60) + 1):
            # A match may also go on at each of many places: at a word in the middle.
            inner = (
                (whole[: end - most], whole[end - most : end]) for most in (4, 8) if most < end
            )
            last = (whole[: end - 1], whole[end - 1])
            for begin, piece in (("", whole[:end]), last, *inner):
                if (begin, piece) not in seen:
                    seen.add((begin, piece))
                    yield begin, piece


def seconds(pattern: re.Pattern[Any], text: str, *, anywhere: bool) -> float:
    """Return the seconds of a processor that a pattern takes for a text."""
    given: Any = text.encode(errors="replace") if isinstance(pattern.pattern, bytes) else text
    begun = time.process_time()
    if anywhere:
        for _ in islice(pattern.finditer(given), 3):
            pass
    else:
        pattern.fullmatch(given)
        pattern.match(given)
    return time.process_time() - begun


def slow(pattern: re.Pattern[Any], *, anywhere: bool) -> str:
    """Return the begin of a text that takes too long, empty if there is none."""
    for begin, piece in texts(pattern):
        text = begin + piece * (LENGTH // len(piece))
        once = seconds(pattern, text, anywhere=anywhere)
        if once > MOST_S:
            twice = begin + piece * (2 * LENGTH // len(piece))
            if seconds(pattern, twice, anywhere=anywhere) > GROWTH * once:
                return text[:80]
    return ""


@pytest.mark.battery
@pytest.mark.parametrize(
    "path", MODULES, ids=[path.relative_to(PACKAGE).as_posix() for path in MODULES]
)
def test_patterns_take_no_longer_than_their_texts(path):
    if "re" not in {
        alias.name
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Import)
        for alias in node.names
    }:
        return
    found = {
        f"{name}: {text!r}"
        for name, pattern, anywhere in compiled(path)
        if (path.relative_to(PACKAGE).as_posix(), name) not in _OF_SHORT_TEXTS
        and (text := slow(pattern, anywhere=anywhere))
    }
    assert sorted(found) == []


def test_a_bad_pattern_is_seen():
    """The text that shows it is made; how long it takes is the battery's."""
    assert ("", "eyJ----------") in set(texts(re.compile(r"\beyJ[\w-]{10,}\.")))
    assert ("a", " ") in set(texts(re.compile(r"a\s*\n")))
    assert ("#a", "-map") in set(texts(re.compile(r"#.*-map\b.*")))
    assert {"ab", "ac"} <= {piece for _, piece in texts(re.compile("a(?:b|c)"))}
