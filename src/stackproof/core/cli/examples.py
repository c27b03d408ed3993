"""Examples of every command, as its help, its man page and the reference show them.

They are command lines and what they do, in `examples.txt`. The tests parse each.
"""

from __future__ import annotations

import os

_FILE = os.path.join(os.path.dirname(__file__), "examples.txt")


def _read(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return command lines with what they do, by the words of their command."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for part in text.split("\n[")[1:]:
        words, _, rows = part.partition("]\n")
        lines: list[tuple[str, str]] = []
        for row in rows.splitlines():
            if row.startswith(" ") and lines:
                lines[-1] = (lines[-1][0], row.strip())
            elif row:
                lines.append((row, ""))
        found[words] = tuple(lines)
    return found


with open(_FILE, encoding="utf-8") as _stream:
    EXAMPLES = _read(_stream.read())
