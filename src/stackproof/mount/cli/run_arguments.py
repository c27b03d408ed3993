"""Arguments of `run`."""

from __future__ import annotations

import argparse

from stackproof.mount.cli import job_injection_arguments, transport_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_arguments(parser)
    parser.usage = "stackproof run IMAGE[:MOUNT][,IMAGE…] [OPTION…] -- COMMAND [ARGUMENT…]"
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")
    parser.epilog = (
        "exit codes: those of the command; 127 when it is not found, 126 when it cannot be "
        "executed; 2, 3, 4 and 6 as everywhere when it was not started"
    )
    parser.set_defaults(run="mount.cli.run:run", parser=parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run` and `start` have in common."""
    parser.add_argument(
        "images",
        metavar="IMAGE[:MOUNT][,IMAGE…]",
        help="image files and where to mount them; without MOUNT, where the image was built for",
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of both, which may also stand behind the images."""
    parser.add_argument(
        "--view",
        action="append",
        default=[],
        metavar="V[,V]",
        help="views to use, as VIEW or NAME:VIEW; without it each image's default view",
    )
    parser.add_argument("--no-view", action="store_true", help="leave the environment as it is")
    parser.add_argument(
        "--how",
        choices=("auto", "kernel", "helper", "fuse"),
        default="auto",
        help="how to mount: by the kernel (as root), by the site's stackproof-mount or by "
        "squashfuse; auto takes the first that is allowed",
    )
    parser.add_argument(
        "--join",
        choices=("auto", "yes", "no"),
        default="auto",
        help="use the mounts of another process of yours that has the same images; auto: for "
        "ranks of an MPI job, so that all of a node share one mount and can reach each other",
    )
    job_injection_arguments.add_arguments(parser)
    transport_arguments.add_arguments(parser)
    parser.add_argument("--verbose", action="store_true", help="say on stderr how it is mounted")
