"""Arguments of builds from source."""

from __future__ import annotations

import argparse

from stackproof.core import choices


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where a Spack build works."""
    group = parser.add_argument_group("builds from source")
    group.add_argument(
        "--jobs", metavar="N", type=_count, help="processes at once; default: all cores"
    )
    group.add_argument(
        "--in-memory",
        choices=choices.YES_NO,
        default="auto",
        help="where the build tree lies; auto: in /dev/shm when there is room",
    )
    group.add_argument(
        "--build-dir", metavar="DIR", help="folder for the build tree, instead of memory"
    )
    group.add_argument(
        "--on",
        choices=choices.SCHEDULERS,
        default="local",
        help="slurm: install the packages on nodes that Slurm gives, or on those of the job around",
    )
    group.add_argument(
        "--nodes", metavar="N", type=_count, help="with --on slurm: how many nodes; default: 1"
    )
    group.add_argument(
        "--cluster", metavar="NAME", help="with --on slurm: cluster of this machine to ask"
    )
    group.add_argument(
        "--srun-option",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="an option of srun, such as partition=debug; NAME=no takes a default away; may be "
        "given several times",
    )
    group.add_argument(
        "--pass-env",
        metavar="NAME",
        action="append",
        default=[],
        help="variable that the recipe's hooks get; may be given several times",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1 on")
    return int(text)
