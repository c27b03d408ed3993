"""Arguments of `convert`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "recipes", metavar="DIR", nargs="+", help="folder of a Stackinator recipe, for one target"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="recipe to write, in a folder around all DIRs; default: DIR.yaml, or for several "
        "the name of the folder around them",
    )
    parser.add_argument(
        "--site",
        metavar="SITE",
        action="append",
        default=[],
        help="where a recipe is built, once for each DIR in their order, or once for all",
    )
    parser.add_argument(
        "--fact",
        metavar="[DIR:]NAME=VALUE",
        action="append",
        default=[],
        help="a fact of the site of one DIR (by its folder's name), or of all",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE when it exists")
    parser.set_defaults(run="build.cli.convert:run")
