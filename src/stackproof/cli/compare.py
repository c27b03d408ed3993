"""`stackproof compare RESULTS`: judge measured results; exit code 8 when a verdict is FAIL."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from stackproof.compare import compare
from stackproof.comparison import (
    DEFAULT_MARGINS,
    CompareOptions,
    Comparison,
    Results,
    Verdict,
)
from stackproof.errors import ExitCode, Reason, fail
from stackproof.host.results import load_results
from stackproof.report import render_json, terminal_verdicts
from stackproof.reporting import tables

_STYLES = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("results", metavar="RESULTS", help="results folder that `bench` wrote")
    add_judging_options(parser)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.set_defaults(run=run)


def add_judging_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change how results are judged."""
    parser.add_argument(
        "--margin", action="append", default=[], metavar="KIND=FRACTION",
        help="how much worse a challenger may be, such as `bandwidth=0.05` or `latency=10%%`; "
        f"kinds: {', '.join(DEFAULT_MARGINS)}; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--minimum-launches", type=int, metavar="N",
        help="judge from N launches per arm on (default 10; below 5 nothing is ever judged)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the resampling")


def options_of(args: argparse.Namespace) -> CompareOptions:
    """Return the options that the command line asks for; raises `StackproofError` (USAGE)."""
    return CompareOptions(
        margins=parse_margins(args.margin),
        minimum_launches=args.minimum_launches,
        seed=args.seed,
    )


def parse_margins(texts: Sequence[str]) -> dict[str, float]:
    """Return margins from `KIND=0.05` or `KIND=5%`; raises `StackproofError` (USAGE)."""
    found: dict[str, float] = {}
    for text in texts:
        kind, _, value = text.partition("=")
        try:
            margin = float(value.rstrip("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            margin = 0.0
        if kind not in DEFAULT_MARGINS or not 0 < margin < 1:
            raise fail(
                Reason.USAGE,
                f"`{text}` is not a margin",
                hint="write KIND=FRACTION with a fraction between 0 and 1, such as "
                f"`latency=0.10`; kinds are: {', '.join(DEFAULT_MARGINS)}",
            )
        found[kind] = margin
    return found


def run(args: argparse.Namespace) -> int:
    """Judge and print."""
    return judge(Path(args.results), as_json=args.json, options=options_of(args))


def judge(folder: Path, *, as_json: bool = False, options: CompareOptions | None = None) -> int:
    """Judge a results folder, print the verdicts to standard output and return the exit code."""
    comparison = load_and_compare(folder, options)
    if as_json:
        sys.stdout.write(render_json(comparison))
    else:
        print_verdicts(comparison)
    return exit_code(comparison)


def load_and_compare(folder: Path, options: CompareOptions | None = None) -> Comparison:
    """Return the comparison of a results folder; files that cannot be read go to stderr."""
    results: Results = load_results(folder)
    for problem in results.problems:
        print(str(problem).replace("error:", "warning:", 1), file=sys.stderr)
    return compare(results, options)


def exit_code(comparison: Comparison) -> int:
    """Return 8 when the verdict is FAIL, also the null arm's; say that aloud on stderr."""
    if any(v.is_null and v.verdict is Verdict.FAIL for v in comparison.verdicts):
        print(
            "error: the null arm FAILS: this machine is too noisy for any verdict\n"
            "hint: make it quiet or take more launches, then measure again",
            file=sys.stderr,
        )
    failed = comparison.verdict is Verdict.FAIL
    return int(ExitCode.WORSE if failed else ExitCode.DONE)


def print_verdicts(comparison: Comparison) -> None:
    """Print verdict tables: in colour on a terminal, as plain text anywhere else."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _print_rich(comparison)
    else:
        sys.stdout.write(terminal_verdicts(comparison))


def _print_rich(comparison: Comparison) -> None:
    """Print the same words as `terminal_verdicts`, in tables and with colour."""
    from rich.console import Console  # noqa: PLC0415 - only for a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    for arm in comparison.challengers:
        verdict = comparison.verdict_of(arm)
        style = _STYLES[verdict.verdict]
        console.print(Text(tables.harmless(tables.title_of(comparison, arm)), style=style))
        console.print(Text(tables.harmless(f"  {verdict.sentence}")))
        for placement in tables.placements(comparison):
            rows = tables.verdict_rows(comparison, arm, placement)
            if not rows:
                continue
            table = Table(box=None, padding=(0, 1), pad_edge=True)
            # A narrow terminal folds what does not fit; nothing is cut off.
            for column in (placement, *tables.table_columns(comparison)):
                table.add_column(Text(tables.harmless(column)), overflow="fold")
            for row in rows:
                cells = [
                    Text(tables.cell_word(cell), style=_STYLES[cell.verdict] if cell else "dim")
                    for cell in row.cells
                ]
                table.add_row(Text(row.label), *cells)
            console.print(table)
        console.print()
    console.print(Text(tables.LEGEND))
    for line in tables.closing_lines(comparison)[:-1]:
        console.print(Text(line, style="bold red" if line.startswith("warning") else ""))
    console.print(Text(f"verdict: {comparison.verdict}", style=_STYLES[comparison.verdict]))
