"""Arguments of `mirror`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import os_sources_arguments, stacks_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mirror`."""
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "bring all sources of a locked stack, and the clones it needs, into one folder"
    create = verbs.add_parser("create", help=text, description=text)
    create.add_argument("folder", metavar="DIR", help="new or existing mirror; what it has stays")
    stacks_arguments.add_arguments(create)
    create.add_argument("--json", action="store_true", help="print the result as JSON")
    create.set_defaults(run="build.cli.mirror:run_create")

    text = "accept sources of the operating system's source packages, fetched by apt without root"
    add = verbs.add_parser("add-os-sources", help=text, description=text)
    os_sources_arguments.configure(add)
