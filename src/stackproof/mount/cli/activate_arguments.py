"""Arguments of `activate`."""

from __future__ import annotations

import argparse

from stackproof.core import choices
from stackproof.mount.cli.run_arguments import add_mpi_options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "images",
        metavar="IMAGE[:MOUNT][,IMAGE…]",
        help="image files and where they will be mounted; "
        f"`{choices.NO_IMAGES}` undoes an earlier activation",
    )
    parser.add_argument(
        "--view",
        action="append",
        default=[],
        metavar="V[,V]",
        help="views to use, as VIEW or NAME:VIEW; without it each image's default view",
    )
    parser.add_argument("--no-view", action="store_true", help="set no variables of views")
    add_mpi_options(parser)
    parser.add_argument(
        "--keep",
        action="store_true",
        help="add to the views of the session or job around, which are undone otherwise",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("-0", "--null", action="store_true", help="print it for programs")
    parser.set_defaults(run="mount.cli.activate:run")
