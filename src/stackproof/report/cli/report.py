"""`stackproof report RESULTS`: everything about a comparison in one file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from stackproof.compare.margins import parse_margins
from stackproof.compare.model import CompareOptions
from stackproof.report.cli.compare import doubt_code, load_and_compare
from stackproof.report.effects.files import REPORT, claim, write_report
from stackproof.report.options import ReportRequest


def run(asked: ReportRequest) -> int:
    """Write the report and the same data beside it, and return the exit code.

    The verdict does not change it. Results that are not what they say do: 7, as from `compare`.
    """
    folder = Path(asked.results)
    options = asked.report
    if not options.output:
        options = options.changed(output=os.fspath(folder / REPORT))
    if asked.report.output or folder.is_dir():  # else it is the results that are not there
        claim(options)
    judging = asked.judging
    judged = CompareOptions(
        margins=parse_margins(judging.margin), minimum_launches=judging.minimum_launches
    )
    comparison = load_and_compare(folder, judged)
    written = write_report(comparison, options)
    if asked.json:
        print(json.dumps({"verdict": comparison.verdict, "files": written}, indent=1))
    else:
        print("\n".join(written.values()))
    return doubt_code(comparison)
