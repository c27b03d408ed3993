"""Arguments of `recipe`."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "list the recipes that come with stackproof; `build NAME` takes each of them"
    known = actions.add_parser("list", help=text, description=text)
    known.add_argument("--json", action="store_true", help="print the list as JSON")
    known.set_defaults(run="recipe.cli.recipe:run_list")
    text = "print a shipped recipe, to start from: stackproof recipe show mpich > mine.yaml"
    show = actions.add_parser("show", help=text, description=text)
    show.add_argument("name", metavar="NAME", help="a name of `recipe list`")
    show.set_defaults(run="recipe.cli.recipe:run_show")
