"""A results folder: `bench.json`, one file per launch in `launches/`, probes in `probes/`."""

from __future__ import annotations

import os
from pathlib import Path

from stackproof import noun
from stackproof.comparison import Results, ResultsSpec
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import files
from stackproof.measurement import Measurement
from stackproof.messagepath import MessagePaths

SPECIFICATION = "bench.json"
LAUNCHES = "launches"
PROBES = "probes"
_LARGEST = 256 * 1024 * 1024
"""No launch writes as much; a larger file is not one of ours, and is not read into memory."""


def load_results(folder: os.PathLike[str] | str) -> Results:
    """Return what a results folder holds.

    A launch or a probe that cannot be read becomes one of `Results.problems`, so that one broken
    file does not cost the others. Raises `StackproofError` when the folder or its specification
    cannot be read, and NO_RESULTS (with all problems) when no launch can.
    """
    place = Path(folder)
    specification = place / SPECIFICATION
    if place.exists() and not place.is_dir():
        raise fail(
            Reason.INVALID_VALUE,
            f"`{os.fspath(place)}` is not a results folder",
            hint="give the folder that `stackproof bench` wrote, the one with `bench.json`",
            where=Location(file=os.fspath(place)),
        )
    if place.is_dir() and not specification.exists():
        raise fail(
            Reason.FILE_MISSING,
            f"`{os.fspath(place)}` holds no `{SPECIFICATION}`",
            hint="give the folder that `stackproof bench` wrote, the one with `bench.json`",
            where=Location(file=os.fspath(specification)),
        )
    spec = noun.from_json(ResultsSpec, _read(specification), file=os.fspath(specification))
    measurements: list[Measurement] = []
    problems: list[Problem] = []
    for file in sorted((place / LAUNCHES).glob("*.json")):
        try:
            measurements.append(noun.from_json(Measurement, _read(file), file=os.fspath(file)))
        except StackproofError as error:
            problems += error.problems
    if not measurements:
        none = Problem(
            reason=Reason.NO_RESULTS,
            message=f"`{os.fspath(place / LAUNCHES)}` holds no launch that can be read",
            hint="let `stackproof bench` finish, or run it again",
            where=Location(file=os.fspath(place)),
        )
        raise StackproofError(none, *problems)
    paths, unread = load_paths(place)
    return Results(
        spec=spec,
        measurements=tuple(measurements),
        problems=(*problems, *unread),
        paths=paths,
    )


def load_paths(folder: Path) -> tuple[tuple[MessagePaths, ...], tuple[Problem, ...]]:
    """Return what the probes of a results folder found, and the files that cannot be read."""
    found: list[MessagePaths] = []
    problems: list[Problem] = []
    for file in sorted((folder / PROBES).glob("*.json")):
        try:
            found.append(noun.from_json(MessagePaths, _read(file), file=os.fspath(file)))
        except StackproofError as error:
            problems += error.problems
    return tuple(found), tuple(problems)


def _read(path: Path) -> bytes:
    """Return a file's bytes; raises `StackproofError` (FILE_MISSING, TOO_LARGE, …)."""
    return files.read_bounded(path, _LARGEST, hint="no result of `bench` is as large as that")
