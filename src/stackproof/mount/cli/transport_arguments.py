"""`--transport` of `run`, `start` and `activate`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run`, `start` and `activate` have in common."""
    parser.add_argument(
        "--transport",
        metavar="NAME",
        help="make the image's MPI use this path: auto, shm, tcp, cxi, lnx, or matched for cxi "
        "with the settings of the vendor's MPI",
    )
    parser.add_argument(
        "--memory",
        choices=("host", "cuda", "rocm"),
        default="host",
        help="with --transport: where the buffers of messages lie (default: host)",
    )
    parser.add_argument(
        "--site",
        metavar="SITE",
        help="with --transport: whose fabric it is, a site's name or file (default: this machine)",
    )
