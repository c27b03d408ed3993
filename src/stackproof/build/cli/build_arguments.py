"""Arguments of `build`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import spack_arguments, stacks_arguments
from stackproof.core.cli.parsing import add_output


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks_arguments.add_arguments(parser)
    stacks_arguments.add_root(parser)
    parser.add_argument(
        "--floor",
        metavar="glibc=RELEASE",
        help="the oldest C library that the image is to run with, such as glibc=2.31: a build "
        "fails that has a file which needs a newer one, and names it (left out: none is asked for)",
    )
    add_output(
        parser,
        "image", "-o", "--output", metavar="FILE", help="image to write; default: NAME.squashfs",
    )  # fmt: skip
    parser.add_argument(
        "--update", action="store_true", help="make a new lock even if the old one is valid"
    )
    parser.add_argument(
        "--locked", action="store_true", help="fail instead of making or changing a lock"
    )
    parser.add_argument(
        "--stop-after", choices=("lock",), help="end when the lock is there, build nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    spack_arguments.add_arguments(parser)
    parser.set_defaults(run="build.cli.build:run")
