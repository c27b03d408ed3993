"""`stackproof report RESULTS -o report.html`: everything about a comparison in one file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from stackproof.compare.margins import parse_margins
from stackproof.compare.model import CompareOptions
from stackproof.core.cli.parsing import read
from stackproof.core.errors import ExitCode
from stackproof.report.cli.compare import load_and_compare
from stackproof.report.effects.files import ReportOptions, claim, write_report


def run(args: argparse.Namespace) -> int:
    """Write the report and the same data beside it; the verdict does not change the exit code."""
    options = read(ReportOptions, args)
    claim(options)
    judged = CompareOptions(
        margins=parse_margins(args.margin), minimum_launches=args.minimum_launches
    )
    comparison = load_and_compare(Path(args.results), judged, signed_by=args.signed_by)
    written = write_report(comparison, options)
    if args.json:
        print(json.dumps({"verdict": comparison.verdict, "files": written}, indent=1))
    else:
        print("\n".join(written.values()))
    return int(ExitCode.DONE)
