"""Arguments of `pack`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments
from stackproof.core.cli.parsing import add_output

FORMATS = ("dir", "tar.zst", "squashfs", "oci", "self")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "image", metavar="IMAGE|RECIPE", help="an image, or a recipe as `build` takes it"
    )
    parser.add_argument(
        "programs",
        metavar="PROGRAM",
        nargs="*",
        help="program for `bin/`, of the image or of this machine; default: all of the view, and "
        "the benchmarks",
    )
    add_output(
        parser,
        "pack",
        "-o",
        "--output",
        metavar="FILE|DIR",
        help="where it is written; left out only with --explain",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="oci is an image for containers, a folder, or one file where the output ends with "
        "`.tar`; self is a program that mounts itself; default: by the name of the output, "
        "tar.zst, squashfs, oci, oci.tar, self, else dir",
    )
    _add_contents(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show what would be moved and how, every text, and write nothing",
    )
    parser.add_argument("--json", action="store_true", help="print the provenance as JSON")
    stacks_arguments.add_site_arguments(parser)
    stacks_arguments.add_swap_arguments(parser)
    parser.set_defaults(run="pack.cli.pack:run")


def _add_contents(parser: argparse.ArgumentParser) -> None:
    """Add what says what is in the pack, and how it is run."""
    parser.add_argument("--view", metavar="NAME", help="view to set; default: the image's default")
    parser.add_argument(
        "--entry",
        metavar="NAME=PROGRAM",
        action="append",
        default=[],
        help="`bin/NAME` starts this program; may be given several times",
    )
    parser.add_argument(
        "--symlink",
        metavar="LINK=TARGET",
        action="append",
        default=[],
        help="a link in the pack to a path in the pack; may be given several times",
    )
    parser.add_argument(
        "--provenance",
        choices=("beside", "inside", "none"),
        default="beside",
        help="where what it was made of is written: OUTPUT.provenance.json, meta/provenance.json "
        "in it, or not at all (default: beside)",
    )
    parser.add_argument(
        "--tier",
        type=int,
        choices=(0, 1),
        help="0: nothing is mounted to run it, and what cannot be moved is a fault; 1: the stack "
        "is mounted where it was built for, once on each node; default: 0 where that will do",
    )
