"""`stackproof report RESULTS -o report.html`: everything about a comparison in one file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from stackproof.cli.compare import add_judging_options, load_and_compare, options_of
from stackproof.errors import ExitCode, Location, Reason, fail
from stackproof.host import files
from stackproof.host.curves import load_curves
from stackproof.host.knowledge import load_knowledge
from stackproof.report import (
    render_csv,
    render_html,
    render_json,
    render_markdown,
    render_paths_csv,
)
from stackproof.shapes import curves_of, look


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("results", metavar="RESULTS", help="results folder that `bench` wrote")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="report.html",
        help="the HTML file (default: report.html)",
    )  # fmt: skip
    parser.add_argument(
        "--overlay", action="append", default=[], metavar="CURVE_ID",
        help="show this published curve from the start; any can be chosen in the page",
    )  # fmt: skip
    parser.add_argument(
        "--json", metavar="FILE", help="where the JSON goes (default: beside the HTML)"
    )
    parser.add_argument(
        "--csv", metavar="FILE", help="where the CSV goes (default: beside the HTML)"
    )
    parser.add_argument(
        "--transports-csv", metavar="FILE",
        help="where every point by path goes as CSV, where arms took different paths (default: "
        "beside the HTML)",
    )  # fmt: skip
    parser.add_argument("--markdown", metavar="FILE", help="write the verdict tables as Markdown")
    add_judging_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the report and the same data beside it; the verdict does not change the exit code."""
    output = Path(args.output)
    stem, _ = os.path.splitext(args.output)
    targets = {
        "html": output,
        "json": Path(args.json or f"{stem}.json"),
        "csv": Path(args.csv or f"{stem}.csv"),
        "paths": Path(args.transports_csv or f"{stem}-transports.csv"),
    }
    if args.markdown:
        targets["markdown"] = Path(args.markdown)
    _refuse_clashes(targets)
    comparison = load_and_compare(Path(args.results), options_of(args))
    marks = look(curves_of(comparison), load_knowledge(settings=False))
    texts = {
        "html": render_html(comparison, curves=load_curves(), overlay=args.overlay, marks=marks),
        "json": render_json(comparison),
        "csv": render_csv(comparison),
        "paths": render_paths_csv(comparison) if comparison.rankings else "",
        "markdown": render_markdown(comparison, marks),
    }
    for kind, target in targets.items():
        if texts[kind]:
            files.write(target, texts[kind])
            print(target)
    return int(ExitCode.DONE)


def _refuse_clashes(targets: dict[str, Path]) -> None:
    """Raise `StackproofError` (USAGE) where one file would overwrite another, or is a folder."""
    seen: dict[Path, str] = {}
    for kind, target in targets.items():
        place = Path(os.path.abspath(target))
        if place in seen:
            raise fail(
                Reason.USAGE,
                f"`{target}` would hold both the {seen[place]} and the {kind}",
                hint="give another name with -o, --json or --csv",
            )
        if place.is_dir():
            raise fail(
                Reason.USAGE,
                f"`{target}` is a folder",
                hint="give a file name, such as `report.html`",
                where=Location(file=str(target)),
            )
        seen[place] = kind
