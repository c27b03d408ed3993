"""Arguments of `inspect`."""

from __future__ import annotations

import argparse


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `inspect` to the actions of `image`: it is the verb of that name."""
    text = "show what an image holds, as the verb `inspect`"
    configure(actions.add_parser("inspect", help=text, description=text))


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("image", metavar="IMAGE", help="an image file, or its label")
    parser.add_argument("--json", action="store_true", help="print what is known as JSON")
    parser.add_argument(
        "--digest", action="store_true", help="read the whole file and print its SHA-256 too"
    )
    parser.add_argument(
        "--verify",
        nargs="?",
        const="",
        metavar="SHA256",
        help="read the whole file, and fail when it is not what was built: by this digest, or by "
        "IMAGE.sha256, which `build` writes; left out: damaged data is not looked for",
    )
    parser.add_argument(
        "--tree",
        nargs="?",
        const="",
        metavar="SHA256",
        help="unpack the image, and fail when its tree is not what the image records, or has not "
        "this digest: that of a tree is one whatever packed it",
    )
    parser.add_argument(
        "--needs",
        action="store_true",
        help="unpack the image, and show what it needs of a machine instead: the newest glibc that "
        "a file asks for, libraries that it does not bring, processors",
    )
    parser.add_argument(
        "--site",
        metavar="SITE",
        help="with --needs: say what of that a machine lacks (exit code 8), or its file does not "
        "tell (9); left out: nothing is compared",
    )
    parser.add_argument(
        "--signers", metavar="FILE", help="whose keys are whose, for what is beside the image "
        "(default: as of `image verify`)",
    )  # fmt: skip
    parser.set_defaults(run="mount.cli.inspect:run")
