"""Versions as users write them, turned into PEP 440 specifiers."""

from __future__ import annotations

import re

from stackproof.core.errors import Reason, fail

# A release with three numbers is exact for every family here: 5.0.11, 4.3.1, 2021.18.1.
_EXACT_NUMBERS = 3
_VERSION = re.compile(r"(\d+(?:\.\d+)*)((?:a|b|rc)\d+)?(\.post\d+)?")


def specifier(version: str | None) -> str:
    """Return the specifier of a version: `==5.0.11`, `==5.0.*` for a prefix, empty for None.

    Raises `StackproofError` (INVALID_VALUE) when the text is not a version.
    """
    if version is None:
        return ""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{version}` is not a version",
            hint="write numbers separated by dots, such as `5.0.11`, or the first of them, `5.0`",
        )
    numbers, suffixes = match[1], (match[2] or "") + (match[3] or "")
    exact = bool(suffixes) or numbers.count(".") + 1 >= _EXACT_NUMBERS
    return f"=={version}" if exact else f"=={version}.*"
