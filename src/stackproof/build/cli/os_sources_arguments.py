"""Arguments of `mirror add-os-sources`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `mirror add-os-sources`."""
    stacks_arguments.add_arguments(parser)
    parser.add_argument(
        "packages",
        metavar="PACKAGE",
        nargs="*",
        help="package of Spack, or PACKAGE=SOURCE where the source package has another name; "
        "default: everything that the lock names and that is not here yet",
    )
    parser.add_argument(
        "--suite", metavar="NAME", help="suite of the archive; default: this system's release"
    )
    parser.add_argument(
        "--archive", metavar="URL", help="archive of packages; default: that of this system"
    )
    parser.add_argument(
        "--keyring", metavar="FILE", help="keys that the archive is signed with; default: its own"
    )
    parser.add_argument(
        "--to", metavar="DIR", help="mirror that gets the files; default: this machine's cache"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run="build.cli.os_sources:run")
