"""Arguments of `doctor`."""

from __future__ import annotations

import argparse

from stackproof.core.cli.parsing import add_output
from stackproof.doctor.cli import collect_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    collect_arguments.configure(parser)
    add_output(
        parser, "bundle", "--bundle", metavar="FILE",
        help="write the evidence and what it was taken from to one archive (.tar.gz), without "
        "secrets",
    )  # fmt: skip
    parser.add_argument("--replay", metavar="FILE", help="take the evidence from such an archive")
    parser.add_argument("--all", action="store_true", help="show also what cannot be told, by rule")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run="doctor.cli.doctor:run")
