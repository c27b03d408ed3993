"""Arguments of `cache`."""

from __future__ import annotations

import argparse

from stackproof.core.cli import choices


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "show what is kept in the cache and in memory: how much, how old, in use or not"
    ls = actions.add_parser("ls", help=text, description=text)
    ls.add_argument(
        "kinds", nargs="*", metavar="KIND", help="show every entry of this kind; may be several"
    )
    ls.add_argument("--json", action="store_true", help="print all entries as JSON")
    ls.set_defaults(run="build.cli.cache:run_ls")

    text = (
        "delete what nobody needs: interrupted builds in memory, and what ended commands left; "
        "with --kind, --older-than or --all more; never what a running stackproof uses"
    )
    prune = actions.add_parser("prune", help="delete what is not used", description=text)
    prune.add_argument("--dry-run", action="store_true", help="say what would go, delete nothing")
    prune.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        default=[],
        help="only this kind, all of it; may be given several times: "
        + ", ".join(choices.CACHE_KINDS),
    )
    prune.add_argument(
        "--older-than",
        metavar="AGE",
        help="what was not used for so long, such as 12h, 30d or 8w",
    )
    prune.add_argument("--all", action="store_true", help="everything that is not in use")
    prune.add_argument("--json", action="store_true", help="print what went as JSON")
    prune.set_defaults(run="build.cli.cache:run_prune")
