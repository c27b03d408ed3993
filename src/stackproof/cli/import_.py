"""`stackproof import FILE… -o RESULTS`: outputs of OSU and IMB become results to report on.

One call takes the files of one placement; with `--add` further calls add other arms, other paths
and other placements to the same results.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import stackproof
from stackproof import limits, noun
from stackproof.case import Locality
from stackproof.curves import Memory
from stackproof.errors import ExitCode, Location, Reason, fail
from stackproof.host import files, probe
from stackproof.host.results import LAUNCHES, SPECIFICATION, load_results
from stackproof.importing import OutputFile, Setup, add, import_outputs
from stackproof.site import Site

_MOST_RANKS = 1 << 20
"""More than any machine of today has cores for; each rank is written down."""


def run(args: argparse.Namespace) -> int:
    """Read the files, write the results folder, and say what does not count."""
    output = Path(args.output)
    before = load_results(output) if args.add else None
    if before is None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise fail(
            Reason.USAGE,
            f"`{output}` is there already",
            hint="name a folder that does not exist, or add to what was imported with --add",
            where=Location(file=str(output)),
        )
    if args.ranks is not None and not 2 <= args.ranks <= _MOST_RANKS:
        raise fail(
            Reason.USAGE,
            f"--ranks is {args.ranks}; it must be between 2 and {_MOST_RANKS}",
            hint="give the number of ranks of these runs",
        )
    site = probe.load_site(args.site) if args.site else None
    limit, source = _limit(args, site)
    setup = Setup(
        name=args.name,
        locality=Locality(args.placement),
        memory=Memory(args.memory),
        baseline="" if args.add else args.baseline or "",
        transport=args.transport,
        ranks=args.ranks,
        nodes=args.nodes,
        limit=limit,
        limit_source=source,
        fabric=site.fabric.type or "" if site else "",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        stackproof=stackproof.__version__,
        command=tuple(sys.argv),
    )
    imported = import_outputs([_file(text, args.arm) for text in args.files], setup)
    results = imported.results
    if before is not None:
        results = add(before, results, baseline=args.baseline or "")
    for one in results.measurements[len(before.measurements) if before else 0 :]:
        files.write(output / LAUNCHES / f"{one.order:04}.json", noun.to_json(one))
    files.write(output / SPECIFICATION, noun.to_json(results.spec))
    for note in imported.notes:
        print(f"note: {note}", file=sys.stderr)
    usable = sum(one.usable for one in imported.results.measurements)
    print(f"{output}: {usable} of {imported.tables} tables can be used")
    print(f"next: stackproof report {shlex.quote(str(output))}", file=sys.stderr)
    return int(ExitCode.DONE)


def _limit(args: argparse.Namespace, site: Site | None) -> tuple[float | None, str]:
    """Return the limit of the link between nodes, None inside a node or where it is not known."""
    if site is None or Locality(args.placement) is Locality.INTRA:
        return None, ""
    return site.fabric.limit_mb_s, f"one NIC in one direction, site `{site.name}`"


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
    data = files.read_bounded(
        path,
        limits.TABLES,
        hint="check that this is the output of a benchmark",
        stream=sys.stdin.buffer if path == "-" else None,
    )
    return OutputFile(arm=arm, name=path, text=data.decode(errors="replace"))
