"""Arguments of `explain`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME",
        help="a variable (FI_PROVIDER), a known problem (K01) or a rule on curves (S05), by id or "
        "name; left out: list all",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run="doctor.cli.explain:run")
