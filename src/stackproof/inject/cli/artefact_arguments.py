"""Arguments of `inject artefact`."""

from __future__ import annotations

import argparse

from stackproof.core import choices


def configure_artefact(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `inject artefact`."""
    parser.add_argument(
        "prefixes",
        metavar="PREFIX",
        nargs="+",
        help="what it is made of: a prefix with libfabric, libcxi, xpmem or an MPI, or "
        "IMAGE[:MOUNT]; several ones become variants, with a `--shs` for each",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE|DIR", required=True, help="NAME.squashfs, or a folder"
    )
    parser.add_argument("--name", metavar="NAME", help="its name; left out: that of the output")
    parser.add_argument(
        "--place",
        metavar="DIR",
        help=f"where containers see it; left out: {choices.ARTEFACT_FOLDER}/NAME",
    )
    parser.add_argument(
        "--shs",
        metavar="RELEASE",
        action="append",
        default=[],
        help="release of the Slingshot host software that a prefix is for",
    )
    parser.add_argument(
        "--isa", choices=choices.LEVELS, help="level of the processors; left out: here"
    )
    parser.add_argument("--json", action="store_true", help="print what was made as JSON")
    parser.set_defaults(run="inject.cli.artefact:run_artefact")


def add_variant(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a variant of an artefact."""
    parser.add_argument(
        "--shs",
        metavar="RELEASE",
        default="",
        help="variant of an artefact; left out: the one that fits this machine's libcxi",
    )
