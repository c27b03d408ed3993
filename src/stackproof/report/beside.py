"""Two results of the same arms beside each other: the ratios of two places, machines or days.

Launches of different places are never put together: each ratio is of arms within its own results,
and two of them differ where their intervals do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.compare.model import Cell, Comparison
from stackproof.core import harmless
from stackproof.core.errors import Reason, fail
from stackproof.core.numbers import ratio_text, size_text
from stackproof.core.value import Value
from stackproof.report.tables import WORDS


class BesideRow(Value):
    """One challenger at one point in both results."""

    placement: str
    program: str
    title: str
    arm: str
    size: int | None
    cells: tuple[Cell, Cell]

    @property
    def differ(self) -> bool:
        """Return whether the intervals do not meet."""
        (low, high), (other_low, other_high) = (ends_of(cell) for cell in self.cells)
        return high < other_low or other_high < low


def ends_of(cell: Cell) -> tuple[float, float]:
    """Return the ends of the interval of a ratio that there is."""
    assert cell.low is not None  # noqa: S101 - of `_cells`, which has no others
    assert cell.high is not None  # noqa: S101 - as above
    return cell.low, cell.high


def rows_of(one: Comparison, other: Comparison) -> tuple[BesideRow, ...]:
    """Return every point that both results have a ratio of.

    Raises `StackproofError` (INVALID_VALUE) where there is none.
    """
    known = dict(_cells(other))
    found = tuple(
        BesideRow(
            placement=key[0],
            program=key[1],
            title=key[2],
            arm=key[3],
            size=key[4],
            cells=(cell, known[key]),
        )
        for key, cell in _cells(one)
        if key in known
    )
    if not found:
        raise fail(
            Reason.INVALID_VALUE,
            "the two results have no arm in common at a placement, benchmark and size",
            hint="both are to be of one specification, and each needs 5 launches per arm",
        )
    return found


def _cells(comparison: Comparison) -> Iterator[tuple[tuple[str, str, str, str, int | None], Cell]]:
    for panel in comparison.panels:
        curve = panel.curve
        for judgement in panel.judgements:
            for cell in judgement.cells:
                if None not in {cell.ratio, cell.low, cell.high}:
                    size = cell.size if curve.sized else None
                    yield (
                        (curve.placement, curve.program, curve.title, judgement.arm, size),
                        cell,
                    )


def other_arms(one: Comparison, other: Comparison) -> tuple[str, ...]:
    """Return the arms that both have by name, and that are not the same bytes."""
    mine, others = one.spec.arms, other.spec.arms
    return tuple(
        name
        for name in mine
        if name in others and mine[name].image_sha256 != others[name].image_sha256
    )


def beside_text(one: Comparison, other: Comparison, names: tuple[str, str]) -> str:
    """Return a table of both results' ratios, as plain text that ends with a newline."""
    rows = rows_of(one, other)
    head = ("placement", "benchmark", "arm", "size", *names, "")
    table = [
        head,
        *(
            (
                row.placement,
                row.title,
                row.arm,
                "" if row.size is None else size_text(row.size),
                *(_ratio(cell) for cell in row.cells),
                "differ" if row.differ else "",
            )
            for row in rows
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    count = sum(row.differ for row in rows)
    said = f"{count} of {len(rows)} ratios differ: their intervals do not meet."
    notes = [f"note: {name} is not the same bytes in both" for name in other_arms(one, other)]
    if one.spec.baseline != other.spec.baseline:
        notes.append(f"note: baselines are {one.spec.baseline} and {other.spec.baseline}")
    text = "Ratios to the baseline, more than 1 is better, with their intervals."
    return "\n".join(map(harmless.line, (text, "", *lines, "", said, *notes))) + "\n"


def _ratio(cell: Cell) -> str:
    ratio, low, high = map(ratio_text, (cell.ratio or 0.0, *ends_of(cell)))
    return f"{ratio} ({low} to {high}) {WORDS[cell.verdict]}"
