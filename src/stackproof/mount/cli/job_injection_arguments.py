"""`--inject` of `run`, `start` and `activate`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run`, `start` and `activate` have in common."""
    parser.add_argument(
        "--inject",
        metavar="IMAGE[:MOUNT]|FOLDER",
        help="put the MPI of this image or folder, or its libfabric, under the programs; refused "
        "when `inject check` would say that it fails",
    )
    parser.add_argument(
        "--accept-unknown",
        action="store_true",
        help="with --inject: go on when the check cannot tell",
    )
