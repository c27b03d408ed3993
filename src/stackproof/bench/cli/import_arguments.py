"""Arguments of `import`."""

from __future__ import annotations

import argparse

from stackproof.core import choices


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="[ARM=]FILE",
        help="output of OSU (5 to 7.5) or IMB-MPI1 (4.1 to 2021.11; MB/s from 2018 on); the n-th "
        "table of a benchmark in an arm goes with the n-th of the others; `-` is standard input",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="results folder to write"
    )
    parser.add_argument(
        "--placement", required=True, choices=choices.PLACEMENTS,
        help="where the ranks of these runs were; it is not read off the numbers",
    )  # fmt: skip
    parser.add_argument(
        "--memory", choices=choices.BUFFERS, default=choices.BUFFERS[0],
        help="where the message buffers were (default: host)",
    )  # fmt: skip
    parser.add_argument(
        "--ranks", type=int, metavar="N",
        help="all ranks of these runs, needed for collectives of OSU, which do not print it; "
        "tests that say themselves that fewer took part keep their own number",
    )  # fmt: skip
    parser.add_argument(
        "--nodes", type=int, metavar="N",
        help="nodes that all ranks were on, as many on each (default: 1, or 2 for inter-node)",
    )  # fmt: skip
    parser.add_argument(
        "--distribution", choices=choices.DISTRIBUTIONS,
        help="how ranks were dealt to several nodes: a node filled before the next, or in turn; "
        "needed for tests of IMB in which other processes waited, which are left out without it",
    )  # fmt: skip
    parser.add_argument(
        "--arm", metavar="NAME", default=choices.IMPORTED,
        help=f"the arm of files that name none (default: {choices.IMPORTED})",
    )  # fmt: skip
    parser.add_argument(
        "--add", action="store_true",
        help="add to results that were imported before; further tables of an arm become further "
        "launches",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="ARM", help="the arm to compare with (default: first)"
    )
    parser.add_argument("--name", default="import", help="name of the results (default: import)")
    parser.add_argument("--site", metavar="SITE", help="site whose link limit counts between nodes")
    parser.add_argument(
        "--transport", default="auto", metavar="NAME",
        help="the path that these runs were forced on, such as lnx; arms by different paths are "
        "compared in the report's section on transports",
    )  # fmt: skip
    parser.set_defaults(run="bench.cli.import_:run")
