"""Arguments of `image`: listing, what is kept, and recipes for container builders."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments
from stackproof.core import choices
from stackproof.core.cli.parsing import add_output


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions that need to know of builds."""
    text = "list images: those with labels, or those of a folder"
    ls = actions.add_parser("ls", help=text, description=text)
    ls.add_argument(
        "places",
        nargs="*",
        metavar="IMAGE|FOLDER",
        help="a label, or its first parts; a folder, or a file (default: all labels)",
    )
    ls.add_argument(
        "--builds", action="store_true", help="also those that builds left in the cache"
    )
    ls.add_argument("--names", action="store_true", help="print the labels alone, one a line")
    ls.add_argument("--json", action="store_true", help="print the list as JSON")
    ls.set_defaults(run="build.cli.image_ls:run")
    _add_disk(actions)
    _add_containerfile(actions)


def _add_disk(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "show what images, builds and the cache take: how much, how old, in use or not"
    du = actions.add_parser("du", help=text, description=text)
    du.add_argument(
        "kinds", nargs="*", metavar="KIND", help="show every entry of this kind; may be several"
    )
    du.add_argument("--json", action="store_true", help="print all entries as JSON")
    du.set_defaults(run="build.cli.image_du:run_du")

    text = (
        "delete what nobody needs: images without label, interrupted builds in memory, and what "
        "ended commands left; with --kind, --older-than or --all more; never what a running "
        "stackproof uses, and images with labels only by --kind images"
    )
    prune = actions.add_parser("prune", help="delete what is not used", description=text)
    prune.add_argument("--dry-run", action="store_true", help="say what would go, delete nothing")
    prune.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        default=[],
        help="only this kind, all of it; may be given several times: "
        + ", ".join(choices.CACHE_KINDS),
    )
    prune.add_argument(
        "--older-than",
        metavar="AGE",
        help="what was not used for so long, such as 12h, 30d or 8w",
    )
    prune.add_argument("--all", action="store_true", help="everything that is not in use")
    prune.add_argument("--json", action="store_true", help="print what went as JSON")
    prune.set_defaults(run="build.cli.image_du:run_prune")


def _add_containerfile(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
