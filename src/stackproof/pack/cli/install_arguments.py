"""Arguments of `install`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "image", metavar="IMAGE", nargs="?", help="an image file, or its label; not with --undo"
    )
    parser.add_argument(
        "--to",
        metavar="PREFIX",
        required=True,
        help="the folder that it is found at: a link to a version beside it, in `.stackproof`",
    )
    parser.add_argument(
        "--view",
        metavar="NAME",
        help="whose programs are found in PREFIX/bin; left out: the default view",
    )
    parser.add_argument(
        "--undo", action="store_true", help="let PREFIX be what it was before its version"
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    parser.set_defaults(run="pack.cli.install:run")
