"""`--target` of `inject check`."""

from __future__ import annotations

import argparse


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--target",
        metavar="FACTS",
        help="the machine that programs will run on, where that is another one: the name or file "
        "of a site, or a manifest that was written there; left out: this machine",
    )
