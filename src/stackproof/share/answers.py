"""JSON of servers, read by one strict reader: a value, or a `ValueError` that says nothing more."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

LARGEST = 2**63 - 1
"""The largest size of a file that a kernel knows, in bytes."""
_LONGEST_S = 86400.0
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character of UTF-16; alone it is no text, and can be written nowhere."""


def parse_json(content: bytes) -> Any:
    """Return the value of a JSON text; raises `ValueError` for all that is none.

    That is UTF-8 with each key once in an object, numbers that are some, texts that can be written,
    and no deeper than Python reads. A key of an object whose value is null counts as left out: Go
    writes so what is empty.
    """
    try:
        text = content.decode()
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError from None
    return value


def parse_object(content: bytes) -> dict[str, Any]:
    """Return the object that a JSON text is; raises `ValueError` as `parse_json`."""
    value = parse_json(content)
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - one error for all that is not read
    return value


def seconds(value: object, otherwise: float) -> float:
    """Return a number of seconds, a day at most; another number for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return otherwise
    return float(min(value, _LONGEST_S))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError
    return {name: one for name, one in value.items() if one is not None}


def _no_number(_: str) -> NoReturn:
    raise ValueError
