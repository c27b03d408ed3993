"""Launches of blocks that were cut, moved out of the results: a block belongs to one time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.bench.schedule import Launch
from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.results.case import Placement
from stackproof.results.measurement import Measurement
from stackproof.results.model import LAUNCHES, SET_ASIDE

_LONGEST_CUT = dt.timedelta(hours=1)
"""A block that was cut longer ago is made again: its launches belong to one time."""


def set_aside(
    placements: Mapping[str, Placement], launches: Sequence[Launch], folder: Path
) -> None:
    """Move the launches of a block that was cut, on other nodes or long ago, out of the results.

    Arms of one block are compared with each other, so all of them must have run on the same
    nodes, one after the other. Whole blocks stay as they are.
    """
    groups: dict[tuple[int, str, str], list[Path]] = {}
    for launch in launches:
        key = (launch.block, launch.placement, launch.program)
        groups.setdefault(key, []).append(folder / LAUNCHES / launch.file_name)
    for (_, name, _), paths in groups.items():
        done = [path for path in paths if path.exists()]
        if not done or len(done) == len(paths):
            continue
        here = placements[name].nodes
        made = [
            noun.from_json(Measurement, files.read_bounded(path, limits.RESULTS), file=str(path))
            for path in done
        ]
        if any(one.case.placement.nodes != here or _long_ago(one) for one in made):
            for path in done:
                path.rename(free_name(folder / SET_ASIDE, path.name))


def _long_ago(one: Measurement) -> bool:
    """Return whether a launch is too old to be compared with one that is made now."""
    began = dt.datetime.fromisoformat(one.started)
    return dt.datetime.now(dt.UTC) - began > _LONGEST_CUT


def free_name(folder: Path, name: str) -> Path:
    """Return a path for a file that replaces none: a block may be cut several times."""
    folder.mkdir(exist_ok=True)
    path, number = folder / name, 1
    while path.exists():
        number += 1
        path = folder / f"{Path(name).stem}-{number}.json"
    return path
