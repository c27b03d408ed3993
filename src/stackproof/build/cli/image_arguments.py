"""Arguments of `image`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments
from stackproof.core.cli.parsing import add_output


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's actions and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "list images: name, MPI, size, date and digest"
    ls = actions.add_parser("ls", help=text, description=text)
    ls.add_argument(
        "places", nargs="*", metavar="FOLDER|IMAGE", help="where to look (default: this folder)"
    )
    ls.add_argument(
        "--builds", action="store_true", help="also those that builds left in the cache"
    )
    ls.add_argument("--json", action="store_true", help="print the list as JSON")
    ls.set_defaults(run="build.cli.image_ls:run")

    text = "write a Containerfile (Dockerfile) that makes the tree of a locked recipe"
    action = actions.add_parser("containerfile", help=text, description=text)
    stacks_arguments.add_arguments(action)
    add_output(
        action,
        "containerfile",
        "-o",
        "--output",
        metavar="FILE",
        help="the file; left out: print it",
    )
    action.add_argument(
        "--base",
        metavar="IMAGE",
        required=True,
        help="base image with its digest, NAME[:TAG]@sha256:DIGEST",
    )
    action.add_argument(
        "--builder-base",
        metavar="IMAGE",
        help="base image of the stage that builds, also with its digest; default: that of --base",
    )
    action.add_argument("--view", metavar="NAME", help="view to set; default: the recipe's default")
    for option, where in (("--package", "the image"), ("--builder-package", "the stage of tools")):
        action.add_argument(
            option,
            metavar="NAME",
            action="append",
            default=[],
            help=f"package of the base's archive for {where}; may be given several times",
        )
    action.add_argument(
        "--manifest",
        metavar="FILE",
        help="ABI manifest of the built stack (`inject manifest`), for the label of the image",
    )
    action.set_defaults(run="build.cli.image:run")
