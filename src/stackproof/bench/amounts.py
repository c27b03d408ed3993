"""Sizes of messages and times, as specifications and command lines write them."""

from __future__ import annotations

import re

from stackproof.core.errors import Reason, fail

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LARGEST_SIZE = 1 << 32


def power_sizes(first: int, last: int) -> tuple[int, ...]:
    """Return the powers of two from `first` to `last` bytes, with 0 in front when it is asked."""
    powers = tuple(1 << n for n in range(33) if max(first, 1) <= 1 << n <= last)
    return (0, *powers) if first == 0 else powers


DEFAULT_SIZES = power_sizes(0, 4 << 20)
"""0 B to 4 MiB, the range of the published tables of the field."""


def parse_size(text: str | int) -> int:
    """Return a size in bytes from `8`, `64 KiB` or `4MiB`; raises `ValueError`."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"(\d+) ?(B|KiB|MiB|GiB)", text)
    if not match:
        raise ValueError(f"not a size: {text}")
    return int(match[1]) * _UNITS[match[2]]


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return sizes from `8,64KiB,1MiB` or, for all powers of two between, `8..1MiB`.

    Raises `ValueError` for text that is neither, and where nothing lies between.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.partition("..")
        sizes = (
            power_sizes(parse_size(_number(first)), parse_size(_number(last)))
            if dots
            else (parse_size(_number(part)),)
        )
        if not sizes or max(sizes) > _LARGEST_SIZE:
            raise ValueError(f"no size in: {part}")
        found |= {*sizes}
    return tuple(sorted(found))


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `20m` or `1h`, a bare number being minutes.

    Raises `ValueError` for anything else, and for no time at all.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh]?)", text.strip())
    if not found or not float(found[1]):
        raise ValueError(f"not a time: {text}")
    return float(found[1]) * {"": 60, "s": 1, "m": 60, "h": 3600}[found[2]]


def duration_given(option: str, text: str) -> float:
    """Return the seconds of `20m`, `90s` or `1h`; raises `StackproofError` (USAGE)."""
    try:
        return parse_duration(text)
    except ValueError:
        hint = "for example 90s, 20m or 1h"
        raise fail(Reason.USAGE, f"{option} is `{text}`", hint=hint) from None


def _number(text: str) -> int | str:
    bare = text.strip()
    return int(bare) if bare.isdecimal() else bare
