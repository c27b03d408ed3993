"""Arguments of `inject apply` and `inject undo`."""

from __future__ import annotations

import argparse

from stackproof.core import choices
from stackproof.inject.cli import artefact_arguments


def configure_apply(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `inject apply`."""
    parser.add_argument("programs", metavar="PROGRAM", nargs="+", help="programs that it is for")
    parser.add_argument(
        "--with",
        dest="replacement",
        metavar="PREFIX",
        required=True,
        help="the MPI's prefix, or libfabric's; for EESSI also an image of `stackproof build`, or "
        "an artefact, which jobs do not need afterwards",
    )
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--eessi",
        metavar="DIR",
        help="fill EESSI's override folder below host_injections/VERSION/software/linux/CPU",
    )
    way.add_argument(
        "--site",
        action="store_true",
        help="fill the override folder of the EESSI that is set up here ($EESSI_SOFTWARE_PATH), "
        "and write the site's Lmod hook, which sets what the MPI must be told",
    )
    way.add_argument("--wrapper", metavar="DIR", help="make a folder with scripts that start them")
    parser.add_argument(
        "--family", metavar="NAME", default="", help="EasyBuild's name of the MPI, if not its own"
    )
    parser.add_argument("--compiler", metavar="NAME", default="", help="for example: GCC")
    parser.add_argument(
        "--accelerator", metavar="NAME", default="", help="for example: CUDA-12.6.0"
    )
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="with --site: another variable that the hook sets where the MPI's module is loaded",
    )
    parser.add_argument(
        "--level",
        choices=("mpi", "libfabric"),
        default="",
        help="what is injected: `libfabric` leaves programs their MPI; left out: the MPI, if any",
    )
    artefact_arguments.add_variant(parser)
    parser.add_argument(
        "--isa", choices=choices.LEVELS, help="level of the processors; left out: this machine's"
    )
    parser.add_argument(
        "--accept-unknown", action="store_true", help="go on when the check cannot tell"
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing: say what would be")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    parser.set_defaults(run="inject.cli.apply:run_apply")


def configure_undo(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `inject undo`."""
    parser.add_argument("place", metavar="PLACE", help="the folder that `inject apply` printed")
    parser.set_defaults(run="inject.cli.apply:run_undo")
