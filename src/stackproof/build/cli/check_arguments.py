"""Arguments of `check`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks_arguments.add_arguments(parser)
    stacks_arguments.add_root(parser)
    parser.add_argument(
        "--offline", action="store_true", help="do not ask the package index whether versions exist"
    )
    parser.add_argument("--json", action="store_true", help="print problems and notes as JSON")
    parser.set_defaults(run="build.cli.check:run")
