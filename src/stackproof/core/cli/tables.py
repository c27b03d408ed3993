"""Rows as a table, and times as people say them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stackproof.core import harmless


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
