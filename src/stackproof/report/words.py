"""The marks, style classes and words that the page has for verdicts, cells and points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stackproof.compare.collect import STATISTICS
from stackproof.compare.model import Cell, Comparison, Curve, Panel, Point, Verdict
from stackproof.core.numbers import percent_text, ratio_text, size_text, value_text
from stackproof.report.tables import reason_text, short_reason, tail_text
from stackproof.results.measurement import State

DASH = "\u2013"
"""Stands where there is no value."""

MARKS = {Verdict.PASS: "●", Verdict.FAIL: "✕", Verdict.INCONCLUSIVE: "○"}
"""Shapes that tell the verdicts apart without colour."""

SLOWER = "▽"
"""Mark of what looks slower by more than the margin, and is not proven."""

CLASSES = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "open"}
"""Style classes of verdicts."""

STATE_CLASSES = {State.BAD: "fail", State.UNKNOWN: "open", State.OK: "pass"}
"""Style classes of what was checked."""

_WHOLE_LIMIT = 100.0


def cell_class(cell: Cell) -> str:
    """Return the style class of a cell."""
    return "slower" if cell.seems_slower else CLASSES[cell.verdict]


def cell_mark(cell: Cell) -> str:
    """Return the mark of a cell."""
    return SLOWER if cell.seems_slower else MARKS[cell.verdict]


def cell_words(cell: Cell) -> str:
    """Return a cell's verdict in words."""
    return "slower, not proven" if cell.seems_slower else cell.reads


def short_word(cell: Cell) -> str:
    """Return a verdict as short as a column is narrow; the section says what each means."""
    return {"slower": "SLOWER?", "open": "OPEN"}.get(cell_class(cell), str(cell.verdict))


def cell_title(curve: Curve, cell: Cell) -> str:
    """Return everything that one mark of a picture stands for."""
    size = f"{size_text(cell.size)}: " if curve.sized else ""
    ratio = "" if cell.ratio is None else f", ratio {ratio_words(cell)}"
    parts = (f"{size}{cell_words(cell)}{ratio}", tail_text(cell), why_text(cell))
    return "; ".join(filter(None, parts))


def ratio_words(cell: Cell | None) -> str:
    """Return a ratio with its interval: `0.98 (0.97 to 0.99)`; empty where there is none."""
    if cell is None or cell.ratio is None:
        return ""
    ratio = ratio_text(cell.ratio)
    known = cell.low is not None and cell.high is not None
    return f"{ratio} ({interval_text(cell)})" if known else ratio


def interval_text(cell: Cell) -> str:
    """Return the interval of a cell's ratio, or its number of pairs where there is none."""
    if cell.low is None or cell.high is None:
        return f"n = {cell.blocks}"
    return f"{ratio_text(cell.low)} to {ratio_text(cell.high)}"


def why_text(cell: Cell) -> str:
    """Return why a cell is INCONCLUSIVE and what would settle it."""
    if cell.why is None or cell.verdict is not Verdict.INCONCLUSIVE:
        return ""
    text = reason_text(cell.why)
    if cell.launches_needed is None:
        return text
    return f"{text}; about {cell.launches_needed} launches per arm would settle it"


def short_ratio(cell: Cell) -> str:
    """Return a cell's ratio, a dash where there is none."""
    return DASH if cell.ratio is None else ratio_text(cell.ratio)


def describe_doubts(cell: Cell) -> str | None:
    """Return the doubts on a cell: its reason and its tail; None where there are none."""
    return "; ".join(filter(None, (why_text(cell), tail_text(cell)))) or None


def describe_reason(cell: Cell) -> str:
    """Return the reason for an undecided cell, else the judgement of its tail, in few words."""
    tail_words = cell.reads.partition(", ")[2]
    tail = cell.by_tail
    if tail and tail.ratio:
        tail_words = f"{tail_words}: {tail.statistic} {ratio_text(tail.ratio)}"
    return short_reason(cell) or tail_words


def sizes_id(comparison: Comparison, arm: str) -> str:
    """Return the id of the part with the tables of a challenger."""
    return f"sizes-{comparison.challengers.index(arm)}"


def row_id(comparison: Comparison, panel: Panel, arm: str, size: int) -> str:
    """Return the id of the row that has every number of a point."""
    numbers = (comparison.panels.index(panel), comparison.challengers.index(arm), size)
    return "row-" + "-".join(map(str, numbers))


def row_class(cells: Iterable[Cell | None]) -> str | None:
    """Return the style class of a row: `fine` where nothing FAILs, which a filter hides."""
    failed = any(cell is not None and cell.verdict is Verdict.FAIL for cell in cells)
    return None if failed else "fine"


def unit_text(unit: str) -> str:
    """Return a unit as it is printed."""
    return "µs" if unit == "us" else unit


def limit_text(percent: float) -> str:
    """Return a share of a limit, with a star where it is more than all of it."""
    return f"{percent:.3g}{'*' if percent > _WHOLE_LIMIT else ''}"


def is_over_limit(comparison: Comparison) -> bool:
    """Return whether any point is above the limit of its link."""
    return any(
        (point.percent_of_limit or 0) > _WHOLE_LIMIT
        for panel in comparison.panels
        for arm in panel.arms
        for point in arm.points
    )


def medians_text(comparison: Comparison, panel: Panel, arm: str, size: int) -> str:
    """Return the medians of the baseline and of a challenger: `1.2 → 1.9 µs`."""
    before, after = _points(comparison, panel, arm, size)
    if after is None:
        return "no value"
    value = "" if before is None else f"{value_text(before.median)} → "
    value += f"{value_text(after.median)} {unit_text(panel.curve.unit)}"
    percent = after.percent_of_limit
    return value if percent is None else f"{value} ({limit_text(percent)} %)"


def number_heads(comparison: Comparison, panel: Panel, arm: str) -> tuple[str, ...]:
    """Return the headings of the table with every number of a challenger's curve."""
    unit = unit_text(panel.curve.unit)
    return (
        "size", f"{comparison.spec.baseline} ({unit})", f"{arm} ({unit})",
        *(("% of limit",) if panel.limit is not None else ()),
        "ratio", "interval", "margin", "noise floor", "pairs", "adjusted p", *_tail_names(panel),
        "tail", "verdict", "",
    )  # fmt: skip


def number_words(comparison: Comparison, panel: Panel, arm: str, cell: Cell) -> Iterator[str]:
    """Yield the columns of that table from the baseline's median to the tail."""
    points = _points(comparison, panel, arm, cell.size)
    for point in points:
        yield DASH if point is None else value_text(point.median)
    if panel.limit is not None:
        percent = None if points[1] is None else points[1].percent_of_limit
        yield DASH if percent is None else limit_text(percent)
    yield DASH if cell.ratio is None else f"{cell.ratio:.3f}"
    yield DASH if cell.low is None else f"{cell.low:.3f} to {cell.high:.3f}"
    yield percent_text(cell.margin)
    yield DASH if cell.floor is None else percent_text(cell.floor)
    yield str(cell.blocks)
    yield DASH if cell.p is None else f"{cell.p:.2g}"
    for name in _tail_names(panel):
        values = (point.tails.get(name) if point else None for point in points)
        yield " / ".join(DASH if value is None else value_text(value) for value in values)
    yield tail_text(cell) or DASH


def _points(
    comparison: Comparison, panel: Panel, arm: str, size: int
) -> tuple[Point | None, Point | None]:
    """Return the points of the baseline and of a challenger at a size."""
    return panel.points(comparison.spec.baseline).get(size), panel.points(arm).get(size)


def _tail_names(panel: Panel) -> list[str]:
    measured = {name for arm in panel.arms for point in arm.points for name in point.tails}
    return [name for name in STATISTICS if name in measured]
