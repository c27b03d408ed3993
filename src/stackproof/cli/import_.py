"""`stackproof import FILE… -o RESULTS`: outputs of OSU and IMB become results to report on."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import stackproof
from stackproof import noun
from stackproof.case import Locality
from stackproof.curves import Memory
from stackproof.errors import ExitCode, Location, Reason, fail
from stackproof.host import files, probe
from stackproof.host.results import LAUNCHES, SPECIFICATION
from stackproof.importing import LARGEST, OutputFile, Setup, import_outputs
from stackproof.site import Site

_ARM = "imported"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="[ARM=]FILE",
        help="output of OSU (5 to 7.5) or IMB-MPI1 (2018 to 2021.11); the n-th table of a "
        "benchmark in an arm is paired with the n-th of the others; `-` is standard input",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="results folder to write"
    )
    parser.add_argument(
        "--placement", required=True, choices=tuple(Locality),
        help="where the ranks were; it is not read off the numbers",
    )  # fmt: skip
    parser.add_argument(
        "--memory", choices=tuple(Memory), default=Memory.HOST,
        help="where the message buffers were (default: host)",
    )  # fmt: skip
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="ranks (default: 2)")
    parser.add_argument(
        "--baseline", metavar="ARM", help="the arm to compare with (default: first)"
    )
    parser.add_argument("--name", default="import", help="name of the results (default: import)")
    parser.add_argument("--site", metavar="SITE", help="site whose link limit counts between nodes")
    parser.add_argument(
        "--transport", default="auto", metavar="NAME", help="what was asked for, to be recorded"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read the files, write the results folder, and say what does not count."""
    output = Path(args.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise fail(
            Reason.USAGE,
            f"`{output}` is there already",
            hint="name a folder that does not exist",
            where=Location(file=str(output)),
        )
    if args.ranks < 2:
        raise fail(Reason.USAGE, f"{args.ranks} ranks send no messages", hint="give 2 or more")
    site = probe.load_site(args.site) if args.site else None
    limit, source = _limit(args, site)
    setup = Setup(
        name=args.name,
        locality=Locality(args.placement),
        memory=Memory(args.memory),
        baseline=args.baseline or "",
        transport=args.transport,
        ranks=args.ranks,
        limit=limit,
        limit_source=source,
        fabric=site.fabric.type or "" if site else "",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        stackproof=stackproof.__version__,
        command=tuple(sys.argv),
    )
    imported = import_outputs([_file(text) for text in args.files], setup)
    for number, one in enumerate(imported.results.measurements, 1):
        files.write(output / LAUNCHES / f"{number:04}.json", noun.to_json(one))
    files.write(output / SPECIFICATION, noun.to_json(imported.results.spec))
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


def _file(text: str) -> OutputFile:
    """Return an arm's file; raises `StackproofError` (FILE_MISSING, TOO_LARGE, …)."""
    arm, equals, path = text.partition("=")
    if not equals or os.path.exists(text):
        arm, path = _ARM, text
    data = files.read_bounded(
        path,
        LARGEST,
        hint="check that this is the output of a benchmark",
        stream=sys.stdin.buffer if path == "-" else None,
    )
    return OutputFile(arm=arm, name=path, text=data.decode(errors="replace"))
