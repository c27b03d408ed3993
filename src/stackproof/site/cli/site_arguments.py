"""Arguments of `site`."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # `typing` takes longer to import than to parse a command line
if TYPE_CHECKING:
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `site`."""
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    _add_probe(verbs)

    text = "list the sites that come with stackproof"
    known = verbs.add_parser("list", help=text, description=text)
    known.add_argument("--json", action="store_true", help="print the list as JSON")
    known.set_defaults(run="site.cli.site:run_list")

    text = "show the facts of a site and where each is from"
    show = verbs.add_parser("show", help=text, description=text)
    show.add_argument("site", metavar="NAME|FILE", help="a shipped site's name or a site file")
    show.add_argument("--json", action="store_true", help="print the site as JSON")
    show.set_defaults(run="site.cli.site:run_show")

    text = "say whether a site file is valid, with every problem at once"
    check = verbs.add_parser("check", help=text, description=text)
    check.add_argument("site", metavar="FILE", help="a site file")
    check.set_defaults(run="site.cli.site:run_check")

    text = "write a cluster configuration for Spack stacks: compilers, external packages, MPIs"
    config = verbs.add_parser("spack-config", help=text, description=text)
    config.add_argument(
        "-o", "--output", metavar="DIR", help="folder to write; left out: print the documents"
    )
    config.add_argument(
        "--site", metavar="NAME|FILE", help="a shipped site's name or a site file; default: here"
    )
    config.set_defaults(run="build.cli.site_spack_config:run")


def _add_probe(verbs: Any) -> None:
    text = "look at this machine and say what it offers"
    look = verbs.add_parser("probe", help=text, description=text)
    form = look.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the site as JSON")
    form.add_argument("--yaml", action="store_true", help="print a site file to start from")
    form.add_argument(
        "--capture", action="store_true", help="print what was read, to be read elsewhere"
    )
    look.add_argument(
        "--from",
        dest="capture_file",
        metavar="FILE",
        help="read a capture of another machine instead of this machine",
    )
    look.add_argument(
        "--complete",
        metavar="SITE.yaml",
        help="write what the machine says into a site file, and keep what stands in it; without "
        "the file, begin with the shipped site of its name, or with its name alone",
    )
    look.add_argument(
        "--part",
        choices=("login", "node", "both"),
        help="what this is, with --complete: a login node, a node in a job, or a machine without a "
        "scheduler; default: found out",
    )
    look.add_argument(
        "--partition",
        metavar="NAME",
        help="which of the site file's `partitions` this node is of, with --complete; default: the "
        "only one, or that of the job's queue",
    )
    look.set_defaults(run="site.cli.site:run_probe")
