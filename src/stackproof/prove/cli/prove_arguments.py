"""Arguments of `inject prove`."""

from __future__ import annotations

import argparse

from stackproof.core import choices
from stackproof.core.cli import parsing


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `prove` to the actions of `inject`."""
    text = "run a program with its own MPI, with another one and with a wrong one, and compare"
    parser = actions.add_parser("prove", help=text, description=text)
    _configure(parser)
    parser.set_defaults(run="prove.cli.prove:run")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--with",
        dest="replacement",
        metavar="IMAGE|FOLDER",
        required=True,
        help="what is injected: IMAGE[:MOUNT], or an MPI's prefix",
    )
    parser.add_argument(
        "--own",
        metavar="IMAGE|FOLDER",
        help="the program's own MPI; left out: the one that it finds by itself",
    )
    parser.add_argument(
        "--wrong",
        metavar="IMAGE|FOLDER",
        help="an MPI that must be refused and must fail; left out: an installed one of another ABI",
    )
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="ranks (default: 2)")
    parser.add_argument(
        "--launches",
        type=int,
        default=10,
        metavar="N",
        help="launches of each arm for its speed (default: 10, the fewest; 0: leave speed out)",
    )
    parsing.add_wait_for_quiet(parser)
    parser.add_argument("--cluster", metavar="NAME", help="run on the nodes of this cluster")
    parser.add_argument(
        "--transport",
        choices=choices.TRANSPORTS,
        default="",
        help="path of messages, for images (default: shm on one node, tcp between nodes)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable for all arms"
    )
    parser.add_argument(
        "--expect", default="", metavar="REGEX", help="text that the output of a good run has"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds of a launch (default: 60)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="proof", help="results (default: proof)"
    )
    parser.add_argument("--json", action="store_true", help="print the proof as JSON")
    parser.add_argument(
        "command",
        nargs="+",
        metavar="PROGRAM",
        help="its path, or its name in --own's image; with arguments: -- PROGRAM ARGUMENT…",
    )
