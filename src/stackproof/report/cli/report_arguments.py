"""Arguments of `report`."""

from __future__ import annotations

import argparse

from stackproof.core.cli.parsing import add_output
from stackproof.report.cli.compare_arguments import add_judging_options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("results", metavar="RESULTS", help="results folder that `bench` wrote")
    add_output(
        parser, "report", "-o", "--output", metavar="FILE", default="report.html",
        help="the HTML file (default: report.html)",
    )  # fmt: skip
    parser.add_argument(
        "--overlay", action="append", default=[], metavar="CURVE_ID",
        help="show this published curve from the start; any can be chosen in the page",
    )  # fmt: skip
    add_output(
        parser, "comparison", "--json-file", metavar="FILE",
        help="where the comparison goes as JSON (default: beside the HTML)",
    )  # fmt: skip
    add_output(
        parser, "points", "--csv", metavar="FILE",
        help="where the CSV goes (default: beside the HTML)",
    )  # fmt: skip
    add_output(
        parser, "points", "--transports-csv", metavar="FILE",
        help="where every point by path goes as CSV, where arms took different paths (default: "
        "beside the HTML)",
    )  # fmt: skip
    add_output(
        parser, "verdicts", "--markdown", metavar="FILE",
        help="write the verdict tables as Markdown; left out: no such file",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="print the verdict and what was written as JSON"
    )
    add_judging_options(parser)
    parser.set_defaults(run="report.cli.report:run")
