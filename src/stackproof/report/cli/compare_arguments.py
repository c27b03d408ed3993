"""Arguments of `compare`."""

from __future__ import annotations

import argparse

from stackproof.core import choices
from stackproof.core.cli import parsing


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("results", metavar="RESULTS", help="results folder that `bench` wrote")
    parser.add_argument(
        "--beside", metavar="RESULTS",
        help="print the ratios beside those of other results of the same arms, such as of another "
        "place; the exit code is that of both",
    )  # fmt: skip
    add_judging_options(parser)
    parsing.add_require_pass(parser)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.set_defaults(run="report.cli.compare:run")


def add_judging_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change how results are judged."""
    parser.add_argument(
        "--margin", action="append", default=[], metavar="KIND=FRACTION",
        help="how much worse a challenger may be, such as `bandwidth=0.05` or `latency=10%%`; "
        f"kinds: {', '.join(choices.MARGINS)}; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--minimum-launches", type=int, metavar="N",
        help="judge from N launches per arm on (default 10; below 5 nothing is ever judged)",
    )  # fmt: skip
    parser.add_argument(
        "--signed-by", metavar="FILE",
        help="only results that one of the allowed signers of this file has signed (ssh-keygen(1))",
    )  # fmt: skip
