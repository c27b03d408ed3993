"""Arguments of `completion`."""

from __future__ import annotations

import argparse

from stackproof.core import choices


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("shell", choices=choices.SHELLS, metavar="SHELL", help="your shell")
    parser.set_defaults(run="cli.completion:run")
