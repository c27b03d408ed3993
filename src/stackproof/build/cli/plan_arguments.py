"""Arguments of `plan`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks_arguments.add_arguments(parser)
    stacks_arguments.add_root(parser)
    parser.add_argument(
        "--explain",
        metavar="KEY",
        help="instead of the plan, show which file set a value and what it took the place of: "
        "`environments.tools.specs`, `packages`, `facts.gpu`",
    )
    parser.add_argument("--json", action="store_true", help="print stack, lock and steps as JSON")
    parser.set_defaults(run="build.cli.plan:run")
