"""Arguments of `start`."""

from __future__ import annotations

import argparse

from stackproof.cli.arguments.run import add_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_arguments(parser)
    parser.set_defaults(run="start:run")
