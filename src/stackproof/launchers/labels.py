"""Lines that a launcher labelled with the rank that wrote them, taken apart again."""

from __future__ import annotations

import re
from collections.abc import Iterator

# How each launcher writes the rank in front: `[1,0]<stderr>:` (the job before it), `[0] `, `0: `.
_LABELS = {
    "prte": r"\[(?:\d+,)*(\d+)\]<std(?:out|err)>: ?",
    "hydra": r"\[(\d+)\] ",
    "intel-hydra": r"\[(\d+)\] ",
    "srun": r" *(\d+): ",
}
# Hydra labels whatever it reads at once, which may begin and end within a line.
_TORN = frozenset({"hydra", "intel-hydra"})


def split(launcher: str, text: str) -> Iterator[tuple[int | None, str]]:
    """Yield the rank of each line and the line without its label; None for what has none."""
    pattern = _LABELS.get(launcher)
    label = re.compile(pattern) if pattern else None
    for line in text.split("\n"):
        found = label.match(line) if label else None
        if label is None or found is None:
            yield None, line
            continue
        rest = line[found.end() :]
        yield int(found[1]), label.sub("", rest) if launcher in _TORN else rest


def joined(launcher: str, text: str) -> str:
    """Return what the ranks wrote, without labels."""
    return "\n".join(line for _, line in split(launcher, text))
