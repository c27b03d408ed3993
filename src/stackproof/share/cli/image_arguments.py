"""Arguments of `image`: those of its actions that this room has."""

from __future__ import annotations

import argparse

from stackproof.share.cli import trust_arguments


def configure(
    parser: argparse.ArgumentParser,
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Add the verb's actions and their arguments; return what takes further ones."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "give an image a label, and put it into your repository"
    add = actions.add_parser("add", help=text, description=text)
    add.add_argument(
        "label", metavar="LABEL", help="name/version:tag@system%%uarch, with all five parts"
    )
    add.add_argument("image", metavar="IMAGE", help="an image file, or a label that it has already")
    add.add_argument(
        "--move", action="store_true", help="take the file away from where it is, once it is there"
    )
    add.add_argument(
        "--force", action="store_true", help="give the label to this image though another has it"
    )
    add.add_argument("--json", action="store_true", help="print the record as JSON")
    add.set_defaults(run="share.cli.image:run_add")

    text = "take labels away; an image goes with its last one"
    rm = actions.add_parser("rm", help=text, description=text)
    rm.add_argument(
        "labels",
        nargs="+",
        metavar="LABEL",
        help="a label that means one image; an id or a digest takes all labels of the image",
    )
    rm.add_argument("--json", action="store_true", help="print what went as JSON")
    rm.set_defaults(run="share.cli.image:run_rm")

    text = "check your repository: files that are gone, changed, unfinished or without label"
    fsck = actions.add_parser("fsck", help=text, description=text)
    fsck.add_argument(
        "--digests", action="store_true", help="also read every image, and compare its SHA-256"
    )
    fsck.add_argument(
        "--repair",
        action="store_true",
        help="forget labels whose image is gone, and delete what ended commands left",
    )
    fsck.add_argument("--json", action="store_true", help="print what is wrong as JSON")
    fsck.set_defaults(run="share.cli.image:run_fsck")
    trust_arguments.add_to(actions)
    return actions
