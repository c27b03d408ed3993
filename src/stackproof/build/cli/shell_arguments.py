"""Arguments of `shell`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "build",
        metavar="BUILD",
        help="name or id of a build (or how it begins), its folder, or an image that it made",
    )
    parser.add_argument(
        "--network", action="store_true", help="let the shell use the network of this machine"
    )
    parser.usage = "stackproof shell BUILD [--network] [-- COMMAND [ARGUMENT…]]"
    parser.add_argument(
        "rest", metavar="COMMAND", nargs=argparse.REMAINDER, help="what to run; default: bash"
    )
    parser.epilog = "exit codes: those of the command; 127 when it is not found"
    parser.set_defaults(run="build.cli.shell:run")
