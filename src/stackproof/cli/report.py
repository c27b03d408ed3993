"""`stackproof report RESULTS -o report.html`: everything about a comparison in one file."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from stackproof.cli.compare import load_and_compare, options_of
from stackproof.errors import ExitCode, Location, Reason, fail
from stackproof.host import outputs
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

# What each of the files is, for those that may replace it.
_KINDS = {
    "html": "report",
    "json": "comparison",
    "csv": "points",
    "paths": "points",
    "markdown": "verdicts",
}


def run(args: argparse.Namespace) -> int:
    """Write the report and the same data beside it; the verdict does not change the exit code."""
    output = Path(args.output)
    stem, _ = os.path.splitext(args.output)
    targets = {
        "html": output,
        "json": Path(args.json_file or f"{stem}.json"),
        "csv": Path(args.csv or f"{stem}.csv"),
        "paths": Path(args.transports_csv or f"{stem}-transports.csv"),
    }
    if args.markdown:
        targets["markdown"] = Path(args.markdown)
    _refuse_clashes(targets)
    for kind, target in targets.items():
        outputs.claim(target, _KINDS[kind])
    comparison = load_and_compare(Path(args.results), options_of(args), signed_by=args.signed_by)
    marks = look(curves_of(comparison), load_knowledge(settings=False))
    texts = {
        "html": render_html(comparison, curves=load_curves(), overlay=args.overlay, marks=marks),
        "json": render_json(comparison),
        "csv": render_csv(comparison),
        "paths": render_paths_csv(comparison) if comparison.rankings else "",
        "markdown": render_markdown(comparison, marks),
    }
    written = {}
    for kind, target in targets.items():
        if texts[kind]:
            outputs.write(target, texts[kind], _KINDS[kind])
            written[kind] = str(target)
    if args.json:
        print(json.dumps({"verdict": comparison.verdict, "files": written}, indent=1))
    else:
        print("\n".join(written.values()))
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
                hint="give another name with -o, --json-file or --csv",
            )
        if place.is_dir():
            raise fail(
                Reason.USAGE,
                f"`{target}` is a folder",
                hint="give a file name, such as `report.html`",
                where=Location(file=str(target)),
            )
        seen[place] = kind
