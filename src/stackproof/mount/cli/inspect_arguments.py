"""Arguments of `inspect`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("image", metavar="IMAGE", help="an image file")
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
    parser.set_defaults(run="mount.cli.inspect:run")
