"""Faults of a text that is no YAML: the place, the line, what is wrong in words, what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from stackproof.core import secrets
from stackproof.core.errors import Location, Problem, Reason

_QUOTED_CHARACTERS = 80
_BEFORE = 2000
"""Characters before a line that are looked at for what tells that it is a secret."""
# A value that is empty, and behind it the indent of what stands below it all the same.
_EMPTIED = re.compile(
    r"^[ -]*([\w.\"'-]+):[ ]*(\{\}|\[\])[ ]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*[ ]+\Z", re.MULTILINE
)
_TAB = "YAML is indented by blanks: write two in the place of the tab"
_IN_QUOTES = 'put the value in quotes: `"{rest}"`'
_WHOLE = "put the whole value in quotes"
# What PyYAML finds, what that is in words, a hint, and whether the fault is where PyYAML began.
_FAULTS: tuple[tuple[str, str, str, bool], ...] = (
    ("could not find expected ':'", "this line has no `: ` behind a key", "", True),
    (r"found character '\\t'", "a tab stands where a key or a value begins", _TAB, False),
    ("found character '(.)'", "a value cannot begin with `{0}`", _IN_QUOTES, False),
    (
        "found undefined alias|expected alphabetic or numeric",
        "`*` or `&` before a word names another value, and there is none",
        _IN_QUOTES,
        False,
    ),
    ("mapping values are not allowed", "a `: ` stands where none may be", _WHOLE, False),
    (
        "sequence entries are not allowed",
        "a `- ` stands where none may be",
        "begin a list on a line of its own, below its key",
        False,
    ),
    (
        "found unexpected end of stream",
        "the quote that begins here does not end",
        "put the same quote behind the value",
        True,
    ),
    (
        "expected ',' or '(.)'",
        "the bracket that begins here does not end",
        "put `{0}` behind its last value, and `,` between two values",
        True,
    ),
    (
        "expected the node content, but found '<stream end>'",
        "the text ends before a bracket does",
        "put its `]` or `}` behind the last value",
        False,
    ),
    (
        "found unknown escape|expected escape",
        "a `\\` in double quotes begins what YAML does not know",
        "take single quotes",
        False,
    ),
    (
        "expected <block end>, but found '<scalar>'",
        "text stands behind a value in quotes",
        _WHOLE,
        False,
    ),
    (
        "expected <block end>, but found '-'|expected <block end>, but found '<block seq",
        "a part of a list stands among keys",
        "put two blanks before each `- ` of a list below a key",
        False,
    ),
    (
        "expected <block end>|expected '<document start>'",
        "this does not go on with what stands above it",
        "keys of one mapping, and the `- ` of one list, begin in one column",
        False,
    ),
)


def problem_of(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    """Return the problem for a text that PyYAML refused."""
    fault, mark = str(error.problem), error.problem_mark or error.context_mark
    context = f" {error.context}" if error.context else ""
    words, hint, began = f"{fault}{context}", "", False
    for pattern, meaning, advice, at_start in _FAULTS:
        if match := re.match(pattern, fault):
            words, hint, began = meaning.format(*match.groups()), advice, at_start
            hint = hint.replace("{0}", match[1]) if match.groups() else hint
            break
    mark = (error.context_mark if began else None) or mark
    if mark is None:
        where = Location(file=file)
        return Problem(reason=Reason.YAML_SYNTAX, message=f"not YAML: {words}", where=where)
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    rest = line[mark.column :].split(" #")[0].strip().replace('"', "'")
    if before := _EMPTIED.search(text[: mark.index]):
        hint = f"take off `{before[2]}`: it says that `{before[1]}` is empty, and keys stand below"
    elif fault.startswith("could not find"):
        key = re.match(r"\s*([\w.-]+):\S", line)
        hint = f"put a blank behind `{key[1]}:`" if key else "write `key: value`; a note has `#`"
    elif "\\t" not in fault and "{rest}" not in hint:
        hint = _compare_indents(lines[: mark.line + 1]) or hint
    return Problem(
        reason=Reason.YAML_SYNTAX,
        message=f"not YAML: {words}",
        where=Location(file=file, line=mark.line + 1, column=mark.column + 1),
        detail=_quotable(line, text[: mark.index - mark.column][-_BEFORE:]),
        hint=hint.replace("{rest}", rest) or None,
    )


def _quotable(line: str, before: str) -> str | None:
    """Return a line as it may be shown; None for an empty one, and where it may be a secret."""
    if secrets.without_secrets(before + line) != secrets.without_secrets(before) + line:
        return None
    text = line.strip().replace("\t", " ")
    shown = text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}…"
    return shown or None


def _compare_indents(lines: Sequence[str]) -> str:
    """Return a hint where the last line is indented in another way than the one above it."""
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()][-2:]
    if not lines[-1].strip() or len({len(line) - len(line.lstrip(" ")) for _, line in filled}) < 2:
        return ""
    above, here = (f"line {number}" for number, _ in filled)
    return f"{here} is indented differently from {above}: keys of one mapping begin in one column"
