"""A results folder: `bench.json`, one file per launch in `launches/`, probes in `probes/`.

Its launches are a chain (`stackproof.results.chain`), which is read with them.
"""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.core import limits, noun
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.core.value import replace
from stackproof.results import chain as chains
from stackproof.results.chain import LaunchFile
from stackproof.results.effects import ledger, signing
from stackproof.results.model import (
    LAUNCHES,
    PROBES,
    SET_ASIDE,
    SPECIFICATION,
    Results,
    ResultsSpec,
)
from stackproof.results.path import MessagePaths
from stackproof.results.record import read_record

_FOLDER_HINT = "give the folder that `stackproof bench` wrote, the one with `bench.json`"


def load_results(
    folder: os.PathLike[str] | str, *, signed_by: str | None = None, probes: bool = False
) -> Results:
    """Return the results in a folder; with `probes`, these alone are results as well.

    `signed_by` is a file of `ssh-keygen`'s allowed signers, one of whom must have signed. A launch
    or a probe that cannot be read becomes one of `Results.problems`, so that one broken file does
    not cost the others. Raises `StackproofError` when the folder or its specification
    cannot be read, and NO_RESULTS (with all problems) when no launch can.
    """
    place = Path(folder)
    specification = place / SPECIFICATION
    documents.refuse_other_kind(os.fspath(place), "results")
    if not place.exists():
        raise fail(
            Reason.FILE_MISSING,
            f"there is no results folder `{os.fspath(place)}`",
            hint=_FOLDER_HINT,
            where=Location(file=os.fspath(place)),
        )
    if not place.is_dir():
        raise fail(
            Reason.INVALID_VALUE,
            f"`{os.fspath(place)}` is not a results folder",
            hint=_FOLDER_HINT,
            where=Location(file=os.fspath(place)),
        )
    if not specification.exists():
        raise fail(
            Reason.FILE_MISSING,
            f"`{os.fspath(place)}` holds no `{SPECIFICATION}`",
            hint=_FOLDER_HINT,
            where=Location(file=os.fspath(specification)),
        )
    spec = noun.from_json(ResultsSpec, _read(specification), file=os.fspath(specification))
    records, unreadable, problems = _records(place / LAUNCHES)
    paths, unread = load_paths(place)
    if not records and not (probes and paths):
        hint = f"`stackproof doctor --results {os.fspath(place)}` says why: its probes failed"
        none = Problem(
            reason=Reason.NO_RESULTS,
            message=f"`{os.fspath(place / LAUNCHES)}` holds no launch that can be read",
            hint=hint if paths else "let `stackproof bench` finish, or run it again",
            where=Location(file=os.fspath(place)),
        )
        raise StackproofError(none, *problems)
    aside, *_ = _records(place / SET_ASIDE, aside=True)
    found = ledger.read(place, (*records, *aside), unreadable)
    found = replace(found, signature=signing.signature(place, signed_by))
    return Results(
        spec=spec,
        measurements=tuple(one.measurement for one in records),
        problems=(*problems, *unread),
        paths=paths,
        chain=chains.state_of(found, spec),
        files=tuple(one.file for one in records),
    )


def load_records(folder: Path) -> tuple[LaunchFile, ...]:
    """Return the launches of a folder that may not be whole yet, without what cannot be read."""
    return _records(folder / LAUNCHES)[0]


def _records(
    folder: Path, *, aside: bool = False
) -> tuple[tuple[LaunchFile, ...], tuple[str, ...], list[Problem]]:
    """Return the launches of a folder, the names of files that are none, and why."""
    records: list[LaunchFile] = []
    unreadable: list[str] = []
    problems: list[Problem] = []
    for file in sorted(folder.glob("*.json")):
        try:
            content = _read(file)
            launch = read_record(content, file=os.fspath(file))
        except StackproofError as error:
            problems += error.problems
            unreadable.append(file.name)
        else:
            sha256 = digest(content)
            records.append(
                LaunchFile(file=file.name, sha256=sha256, measurement=launch, aside=aside)
            )
    return tuple(records), tuple(unreadable), problems


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
    return files.read_bounded(path, limits.RESULTS, hint="no result of `bench` is as large as that")
