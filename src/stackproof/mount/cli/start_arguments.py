"""Arguments of `start`."""

from __future__ import annotations

import argparse

from stackproof.mount.cli.run_arguments import add_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_arguments(parser)
    parser.set_defaults(run="mount.cli.start:run")
