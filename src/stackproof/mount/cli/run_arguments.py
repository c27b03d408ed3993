"""Arguments of `run`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_arguments(parser)
    add_profile(parser)
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


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add `--profile`, which `run` alone has."""
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="set what a profile that `bench` wrote found best; default: none",
    )


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
    add_mpi_options(parser)
    parser.add_argument("--verbose", action="store_true", help="say on stderr how it is mounted")


def add_mpi_options(parser: argparse.ArgumentParser) -> None:
    """Add `--inject`, `--transport` and theirs, which `activate` has as well."""
    parser.add_argument(
        "--inject",
        metavar="IMAGE[:MOUNT]|FOLDER",
        help="put the MPI of this image or folder, or its libfabric, under the programs; refused "
        "when `inject check` would say that it fails",
    )
    parser.add_argument(
        "--accept-unknown",
        action="store_true",
        help="with --inject: go on when the check cannot tell",
    )
    parser.add_argument(
        "--transport",
        metavar="NAME",
        help="make the image's MPI use this path: auto, shm, tcp, cxi, lnx, or matched for cxi "
        "with the settings of the vendor's MPI",
    )
    parser.add_argument(
        "--memory",
        choices=("host", "cuda", "rocm"),
        default="host",
        help="where the buffers of messages lie: the MPI is told what it needs for those of a GPU, "
        "and one that is known to take none is refused (default: host)",
    )
    parser.add_argument(
        "--site",
        metavar="SITE",
        help="with --transport: whose fabric it is, a site's name or file (default: this machine)",
    )
