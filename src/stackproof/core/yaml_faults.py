"""Faults of a text that is no YAML: the place, the line, what is wrong in words, what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from stackproof.core import secrets
from stackproof.core.errors import Location, Problem, Reason

# A value that is empty, and behind it the indent of what stands below it all the same.
_EMPTIED = re.compile(
    r"^[ -]*+([\w.\"'-]+):[ ]*(\{\}|\[\])[ ]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*[ ]+\Z", re.MULTILINE
)
_TAB = "YAML is indented by blanks: write two in the place of the tab"
_WHOLE = "put the whole value in quotes"
_FAULTS = (
    ("could not find expected ':'", "this line has no `: ` behind a key", "write `key: value`"),
    (r"found character '\\t'", "a tab stands where a key or a value begins", _TAB),
    ("found character|found undefined|expected alpha", "a value cannot begin like this", _WHOLE),
    ("mapping values are not", "a `: ` stands where none may be", _WHOLE),
    ("sequence entries are not", "a `- ` stands where none may be", "begin a list on its own line"),
    ("found unexpected end", "the quote that begins here does not end", "put the same at its end"),
    ("expected ',' or '(.)'", "the bracket that begins here does not end", "put `{}` at its end"),
    ("expected <block end>.*<scalar>", "text stands behind a value in quotes", _WHOLE),
    ("expected <block end>", "this does not go on with what stands above it",
     "keys of one mapping, and the `- ` of one list, begin in one column"),
)  # fmt: skip
"""What PyYAML finds, what that is in words, and what to write."""
_BEGUN = re.compile("could not|found unexpected|expected ','")
"""Faults of something that began further up: there they are mended."""
_LOOKED_AT = 1 << 16
"""The longest text before a fault of which a line is shown."""


def problem_of(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    """Return the problem for a text that PyYAML refused."""
    fault = str(error.problem)
    begun = error.context_mark if _BEGUN.match(fault) else None
    mark = begun or error.problem_mark or error.context_mark
    words, hint = f"{fault} {error.context or ''}".rstrip(), ""
    for form, *row in reversed(_FAULTS):
        if match := re.match(form, fault):
            words, hint = row[0], row[1].format(*match.groups())
    where, shown = Location(file=file), None
    if mark:
        where = Location(file=file, line=mark.line + 1, column=mark.column + 1)
        lines = text.split("\n")[: mark.line + 1]
        if emptied := _EMPTIED.search(text[: mark.index]):
            name = emptied[1]
            hint = f"take off `{emptied[2]}`: it says that `{name}` is empty, and keys stand below"
        elif key := re.match(r"\s*([\w.-]+:)\S", lines[-1] if begun else ""):
            hint = f"put a blank behind `{key[1]}`"
        elif hint != _TAB and not begun:
            hint = _compare_indents(lines) or hint
        before = "\n".join(lines)  # a secret may begin far above
        is_safe = len(before) < _LOOKED_AT and secrets.without_secrets(before).endswith(lines[-1])
        shown = lines[-1].strip()[:80] if is_safe else None
    return Problem(
        reason=Reason.YAML_SYNTAX, message=f"not YAML: {words}", where=where, detail=shown or None,
        hint=hint or None,
    )  # fmt: skip


def _compare_indents(lines: Sequence[str]) -> str:
    """Return a hint where the last line is indented in another way than the one above it."""
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()][-2:]
    if not lines[-1].strip() or len({len(line) - len(line.lstrip(" ")) for _, line in filled}) < 2:
        return ""
    above, here = (f"line {number}" for number, _ in filled)
    return f"{here} is indented differently from {above}: keys of one mapping begin in one column"
