"""A results folder: `bench.json`, one file per launch in `launches/`, probes in `probes/`.

Digests of them (`stackproof.results.digests`) are read with them.
"""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.core import limits, noun
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.launch.effects import scheduler
from stackproof.results.digests import judge_digests
from stackproof.results.effects.record import read_digests
from stackproof.results.measurement import Measurement
from stackproof.results.model import (
    ASKED,
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


def load_results(folder: os.PathLike[str] | str, *, probes: bool = False) -> Results:
    """Return the results in a folder; with `probes`, these alone are results as well.

    A launch or a probe that cannot be read becomes one of `Results.problems`, so that one broken
    file does not cost the others. Raises `StackproofError` when the folder or its specification
    cannot be read, and NO_RESULTS (with all problems) when no launch can.
    """
    place = Path(folder)
    specification = place / SPECIFICATION
    around = next((path for path in place.parents if (path / SPECIFICATION).is_file()), None)
    if around and not place.is_dir():
        message = f"`{place}` is in a results folder, and results are the whole folder"
        raise fail(Reason.INVALID_VALUE, message, hint=f"give the folder: `{around}`")
    documents.refuse_other_kind(os.fspath(place), "results")
    _refuse_launchless(place)
    for is_fault, reason, message, where in (
        (not place.exists(), Reason.FILE_MISSING, f"there is no results folder `{place}`", place),
        (not place.is_dir(), Reason.INVALID_VALUE, f"`{place}` is not a results folder", place),
        (
            not specification.exists(),
            Reason.FILE_MISSING,
            f"`{place}` holds no `{SPECIFICATION}`",
            specification,
        ),
    ):
        if is_fault:
            raise fail(reason, message, hint=_FOLDER_HINT, where=Location(file=str(where)))
    spec = noun.from_json(ResultsSpec, _read(specification), file=os.fspath(specification))
    records, digests, problems = _records(place / LAUNCHES)
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
    asked = place / ASKED
    return Results(
        spec=spec,
        measurements=tuple(records.values()),
        problems=(*problems, *unread),
        paths=paths,
        digests=judge_digests(
            read_digests(place),
            {f"{LAUNCHES}/{name}": sha256 for name, sha256 in digests.items()},
            {
                SPECIFICATION: digest(_read(specification)),
                ASKED: digest(_read(asked)) if asked.is_file() else "",
            },
            [*_records(place / SET_ASIDE)[1].values()],
        ),
        files=tuple(records),
    )


def _refuse_launchless(folder: Path) -> None:
    """Refuse a folder without launches by the last error of its job, if it has one."""
    empty = not any(x for name in (LAUNCHES, PROBES) for x in (folder / name).glob("*.json"))
    if empty and (job := scheduler.load_job(folder)):
        fault, log = scheduler.find_fault(folder, job)
        raise fail(
            Reason.NO_RESULTS,
            f"no launch was made yet: job {job.id} {f'says: {fault}' if fault else 'made none'}",
            hint=f"`{log}` says more" if log else f"`squeue --jobs={job.id}` shows if it waits",
        )


def _records(
    folder: Path,
) -> tuple[dict[str, Measurement], dict[str, str], list[Problem]]:
    """Return launches by the names of their files, digests of all files, and what is none."""
    records: dict[str, Measurement] = {}
    digests: dict[str, str] = {}
    problems: list[Problem] = []
    for file in sorted(folder.glob("*.json")):
        digests[file.name] = ""
        try:
            content = _read(file)
            digests[file.name] = digest(content)
            records[file.name] = read_record(content, file=os.fspath(file))
        except StackproofError as error:
            problems += error.problems
    return records, digests, problems


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
