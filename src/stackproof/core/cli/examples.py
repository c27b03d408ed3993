"""Examples of every command, as its help, its man page and the reference show them.

They are command lines and what they do, in `examples.txt`, and for some commands a line with its
output: `$ LINE`, then `| TEXT`, where `| …` stands for lines left out. The tests parse each line,
and compare outputs with those of today.
"""

from __future__ import annotations

import os

_FILE = os.path.join(os.path.dirname(__file__), "examples.txt")


def _read(
    text: str,
) -> tuple[dict[str, tuple[tuple[str, str], ...]], dict[str, tuple[str, ...]]]:
    """Return command lines with what they do, and outputs, by the words of their command."""
    examples: dict[str, tuple[tuple[str, str], ...]] = {}
    outputs: dict[str, tuple[str, ...]] = {}
    for part in text.split("\n[")[1:]:
        words, _, rows = part.partition("]\n")
        lines: list[tuple[str, str]] = []
        output: list[str] = []
        for row in rows.splitlines():
            if row.startswith(("$ ", "|")):
                output.append(row.removeprefix("|").removeprefix(" "))
            elif row.startswith(" ") and lines:
                lines[-1] = (lines[-1][0], row.strip())
            elif row:
                lines.append((row, ""))
        examples[words] = tuple(lines)
        if output:
            outputs[words] = tuple(output)
    return examples, outputs


with open(_FILE, encoding="utf-8") as _stream:
    EXAMPLES, OUTPUTS = _read(_stream.read())
