"""Lines that a launcher labelled with the rank that wrote them, taken apart again."""

from __future__ import annotations

import re
from collections.abc import Iterator

# How each launcher writes the rank in front: `[1,0]<stderr>:` (the job before it), `[0] `, `0: `.
# Flux's are as its manual has them, PALS's as assumed, with or without a host: neither was seen.
_LABELS = {
    "prte": r"\[(?:\d+,)*(\d+)\]<std(?:out|err)>: ?",
    "hydra": r"\[(\d+)\] ",
    "intel-hydra": r"\[(\d+)\] ",
    "srun": r" *(\d+): ",
    "flux": r"(\d+): ",
    "pals": r"(?:[\w.-]+ )?(\d+): ",
}
# Hydra, and ORTE of Open MPI 4, label whatever they read at once, which may begin within a line.
_TORN = {
    "prte": re.compile(r"\[(?:\d+,)*\d+\]<std(?:out|err)>:"),
    "hydra": re.compile(_LABELS["hydra"]),
    "intel-hydra": re.compile(_LABELS["intel-hydra"]),
}
# Slurm passes a line on in pieces of so many bytes, each with a label of its own; the last one is
# shorter, if need be empty. Seen with 22.05.
_PIECE = {"srun": 1024}


def split(launcher: str, text: str) -> Iterator[tuple[int | None, str]]:
    """Yield the rank of each line and the line without its label; None for what has none."""
    pattern = _LABELS.get(launcher)
    label = re.compile(pattern) if pattern else None
    torn = _TORN.get(launcher)
    whole, pieces = _PIECE.get(launcher), dict[int, str]()
    for line in text.split("\n"):
        found = label.match(line) if label else None
        if label is None or found is None:
            yield None, line
            continue
        rank, rest = int(found[1]), line[found.end() :]
        if whole is not None and len(rest.encode()) == whole:
            pieces[rank] = pieces.get(rank, "") + rest
            continue
        yield rank, pieces.pop(rank, "") + (torn.sub("", rest) if torn else rest)
    yield from pieces.items()


def joined(launcher: str, text: str) -> str:
    """Return what the ranks wrote, without labels."""
    return "\n".join(line for _, line in split(launcher, text))
