"""Arguments of `doctor` that name evidence."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name evidence."""
    parser.add_argument("image", nargs="?", metavar="IMAGE", help="image of the stack in question")
    parser.add_argument("--view", metavar="VIEW", help="view of the image (default: its own)")
    parser.add_argument(
        "--program", metavar="FILE", help="program of the job: what it loads is looked at, unrun"
    )
    parser.add_argument(
        "--site", metavar="SITE", help="site to look at (default: this machine, by looking)"
    )
    parser.add_argument("--results", metavar="FOLDER", help="results of `bench` or `import`")
    parser.add_argument(
        "--arm", metavar="ARM", help="arm of the results (default: the first challenger)"
    )
    parser.add_argument(
        "--log", action="append", default=[], metavar="FILE",
        help="what a job printed, standard error too; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--env", metavar="FILE",
        help="environment of the job, as `env` prints it in a rank (default: that of this shell; "
        "with --results or --site what they show)",
    )  # fmt: skip
    parser.add_argument(
        "--probe", action="store_true",
        help="also ask programs: fi_info, ompi_info, mpichversion (of the image, if there is one), "
        "scontrol, srun --mpi=list, pkg-config; takes seconds",
    )  # fmt: skip
    parser.add_argument(
        "--have", action="append", default=[], metavar="COMPONENT=VERSION",
        help="a version, such as libfabric=2.3.1; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--fact", action="append", default=[], metavar="NAME=VALUE",
        help="a fact, such as transport=lnx or memory=device; may be given several times",
    )  # fmt: skip
