"""`stackproof report RESULTS -o report.html`: everything about a comparison in one file."""

from __future__ import annotations

import json
from pathlib import Path

from stackproof.compare.margins import parse_margins
from stackproof.compare.model import CompareOptions
from stackproof.core.errors import ExitCode
from stackproof.report.cli.compare import load_and_compare
from stackproof.report.effects.files import claim, write_report
from stackproof.report.options import ReportRequest


def run(asked: ReportRequest) -> int:
    """Write the report and the same data beside it; the verdict does not change the exit code."""
    claim(asked.report)
    judging = asked.judging
    judged = CompareOptions(
        margins=parse_margins(judging.margin), minimum_launches=judging.minimum_launches
    )
    comparison = load_and_compare(Path(asked.results), judged, signed_by=judging.signed_by)
    written = write_report(comparison, asked.report)
    if asked.json:
        print(json.dumps({"verdict": comparison.verdict, "files": written}, indent=1))
    else:
        print("\n".join(written.values()))
    return int(ExitCode.DONE)
