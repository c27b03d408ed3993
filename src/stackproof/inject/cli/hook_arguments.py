"""Arguments of `inject container` for an artefact."""

from __future__ import annotations

import argparse

from stackproof.core import choices
from stackproof.inject.cli import artefact_arguments


def configure_hook(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that only an artefact has."""
    parser.add_argument(
        "--level",
        choices=("mpi", "libfabric", "libcxi"),
        default="",
        help="what of an artefact is injected; left out: the highest that it has",
    )
    parser.add_argument(
        "--hook",
        metavar="FILE",
        default=choices.HOOK,
        help=f"the hook program; left out: {choices.HOOK}",
    )
    parser.add_argument(
        "--on-mismatch",
        choices=("fail", "skip"),
        default="fail",
        help="what the hook does with a container that the artefact does not fit",
    )
    parser.add_argument("--log", metavar="FILE", default="", help="where the hook says what it did")
    artefact_arguments.add_variant(parser)
