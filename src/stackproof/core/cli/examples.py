"""Examples of every command, as its help, its man page and the reference show them.

They are command lines and what they do, in `examples.txt`, and one line of each command with its
output, `| TEXT`, where `| …` stands for lines left out. The line is the example above, or `$ LINE`.
The tests parse each line, and compare outputs with those of today.
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
                if not output and row.startswith("|"):
                    output.append(f"$ {lines[-1][0]}")
                output.append(row.removeprefix("|").removeprefix(" "))
            elif row:
                line, _, text = row.partition("  # ")
                lines.append((line, text))
        examples[words] = tuple(lines)
        if output:
            outputs[words] = tuple(output)
    return examples, outputs


with open(_FILE, encoding="utf-8") as _stream:
    EXAMPLES, OUTPUTS = _read(_stream.read())
