"""Outputs of OSU and IMB, read from files and written as a results folder."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import stackproof
from stackproof.bench.import_outputs import Imported, OutputFile, import_outputs
from stackproof.bench.import_places import Distribution, ImportSetup
from stackproof.bench.options import ImportOptions
from stackproof.compare.effects.results import load_results
from stackproof.core import limits, noun
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality
from stackproof.results.model import LAUNCHES, SPECIFICATION, Results
from stackproof.site.effects import probe

_RANKS_AT_MOST = 1 << 20
"""More than any machine of today has cores for; each rank is written down."""


def import_files(options: ImportOptions, *, command: tuple[str, ...] = ()) -> Imported:
    """Read the files and write the results folder; return what these files gave.

    Raises `StackproofError`: USAGE, INVALID_VALUE, and what reading files, results and the
    site raises.
    """
    output = Path(options.output)
    before = load_results(output) if options.add else None
    if before is None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise fail(
            Reason.USAGE,
            f"`{output}` is there already",
            hint="name a folder that does not exist, or add to what was imported with --add",
            where=Location(file=str(output)),
        )
    outputs = [_file(text, options.arm) for text in options.files]
    imported = _imported(outputs, _setup(options, command), before)
    results = imported.results
    for launch in results.measurements[len(before.measurements) if before else 0 :]:
        files.write(output / LAUNCHES / f"{launch.order:04}.json", noun.to_json(launch))
    files.write(output / SPECIFICATION, noun.to_json(results.spec))
    return imported


def _imported(outputs: list[OutputFile], setup: ImportSetup, before: Results | None) -> Imported:
    """Return the import of files; one without results is a wrong input here, no job that failed."""
    try:
        return import_outputs(outputs, setup, before)
    except StackproofError as error:
        lacking = Reason.NO_RESULTS
        raise StackproofError(
            *(
                replace(one, reason=Reason.INVALID_VALUE) if one.reason is lacking else one
                for one in error.problems
            )
        ) from error


def _setup(options: ImportOptions, command: tuple[str, ...]) -> ImportSetup:
    """Return how the files were measured; the limit of the link counts between nodes alone."""
    if options.ranks is not None and not 2 <= options.ranks <= _RANKS_AT_MOST:
        raise fail(
            Reason.USAGE,
            f"--ranks is {options.ranks}; it must be between 2 and {_RANKS_AT_MOST}",
            hint="give the number of ranks of these runs",
        )
    site = probe.load_site(options.site) if options.site else None
    locality = Locality(options.placement)
    between = site if locality is not Locality.INTRA else None
    return ImportSetup(
        name=options.name,
        locality=locality,
        memory=BufferPlace(options.memory),
        baseline=options.baseline or "",
        transport=options.transport,
        ranks=options.ranks,
        nodes=options.nodes,
        distribution=Distribution(options.distribution) if options.distribution else None,
        limit=between.fabric.limit_mb_s if between else None,
        limit_source=f"one NIC in one direction, site `{between.name}`" if between else "",
        fabric=site.fabric.type or "" if site else "",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        stackproof=stackproof.__version__,
        command=command,
    )


def _file(text: str, default: str) -> OutputFile:
    """Return an arm's file; raises `StackproofError` (FILE_MISSING, TOO_LARGE, …)."""
    arm, equals, path = text.partition("=")
    if not equals or os.path.exists(text):
        arm, path = default, text
    if not arm:
        raise fail(
            Reason.USAGE,
            f"`{text}` names no arm",
            hint="write ARM=FILE, or name one with --arm",
        )
    if path != "-":
        documents.refuse_other_kind(path, "output", texts=False)
    data = files.read_bounded(
        path,
        limits.TABLES,
        hint="check that this is the output of a benchmark",
        stream=sys.stdin.buffer if path == "-" else None,
    )
    return OutputFile(arm=arm, name=path, text=data.decode(errors="replace"))
