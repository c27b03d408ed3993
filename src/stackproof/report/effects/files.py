"""A comparison as files: the page of the report, and the same data beside it."""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.compare.model import Comparison
from stackproof.core.effects import outputs
from stackproof.core.errors import Location, Reason, fail
from stackproof.knowledge.effects.load import load_curves
from stackproof.report.options import ReportOptions
from stackproof.report.render import (
    render_csv,
    render_html,
    render_json,
    render_markdown,
    render_paths_csv,
)

REPORT = "report.html"
"""The file of a report that nobody named."""

# What each of the files is, for those that may replace it.
_KINDS = {
    "html": "report",
    "json": "comparison",
    "csv": "points",
    "paths": "points",
    "markdown": "verdicts",
}


def _targets(options: ReportOptions) -> dict[str, Path]:
    """Return the files by what they hold."""
    page = options.output or REPORT
    stem, _ = os.path.splitext(page)
    found = {
        "html": Path(page),
        "json": Path(options.json_file or f"{stem}.json"),
        "csv": Path(options.csv or f"{stem}.csv"),
        "paths": Path(options.transports_csv or f"{stem}-transports.csv"),
    }
    return {**found, "markdown": Path(options.markdown)} if options.markdown else found


def claim(options: ReportOptions) -> None:
    """Look at what is there, before anything is judged.

    Raises `StackproofError`: USAGE where files clash, NOT_REPLACED for what is somebody's.
    """
    _refuse_clashes(_targets(options))
    for kind, target in _targets(options).items():
        outputs.claim(target, _KINDS[kind])


def write_report(comparison: Comparison, options: ReportOptions) -> dict[str, str]:
    """Write the files and return their names by what they hold; raises as `claim` does."""
    claim(options)
    overlay = options.overlay
    texts = {
        "html": render_html(comparison, curves=load_curves(), overlay=overlay),
        "json": render_json(comparison),
        "csv": render_csv(comparison),
        "paths": render_paths_csv(comparison) if comparison.rankings else "",
        "markdown": render_markdown(comparison),
    }
    written = {}
    for kind, target in _targets(options).items():
        if texts[kind]:
            outputs.write(target, texts[kind], _KINDS[kind])
            written[kind] = str(target)
    return written


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
