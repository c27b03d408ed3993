"""Paths in the report: which arm is best at which size, and every point as CSV."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator, Sequence

from stackproof.compare.model import Cell, Comparison, Curve, Panel
from stackproof.compare.ranking import arm_text
from stackproof.core import harmless
from stackproof.results.measurement import State

BEST = "★"
"""Marks the path that stands above every other."""

UNTIMED = "validated, not timed"

PATH_COLUMNS = (
    "placement", "locality", "nodes", "ranks", "program", "benchmark", "size_bytes", "unit", "arm",
    "transport", "state", "launches", "median", "minimum", "maximum", "quotient", "ratio",
    "ratio_low", "ratio_high", "best",
)  # fmt: skip


def placement_text(curve: Curve) -> str:
    """Return a placement's name, with what it means where more than 2 ranks take part."""
    if curve.ranks <= 2:
        return curve.placement
    nodes = "one node" if curve.nodes == 1 else f"{curve.nodes} nodes"
    return f"{curve.placement}: {curve.ranks} ranks on {nodes}"


def list_timed_arms(comparison: Comparison, panel: Panel) -> list[str]:
    """Return the arms of a panel but the null arm."""
    return [curve.arm for curve in panel.arms if curve.arm != comparison.spec.null]


def path_heads(panel: Panel, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the headings of a panel's numbers by path."""
    return ("size", *(arm_text(arm, panel.transport(arm)) for arm in arms))


def find_best(comparison: Comparison, panel: Panel) -> dict[int, str]:
    """Return the best arm of a panel by size, where one stands above every other."""
    curve = panel.curve
    return {
        size: one.arm
        for ranking in comparison.rankings
        if ranking.placement == curve.placement
        for one in ranking.best
        if (one.program, one.benchmark) == (curve.program, curve.benchmark)
        for size in one.sizes
    }


def encode_paths_csv(comparison: Comparison) -> str:
    """Return the CSV in base64, for a link of the page."""
    return base64.b64encode(render_paths_csv(comparison).encode()).decode("ascii")


def render_paths_csv(comparison: Comparison) -> str:
    """Return every point of every arm as CSV (RFC 4180, UTF-8), and what was validated.

    `quotient` is the arm's value over the baseline's, as published plots have it: below 1
    is better for times. `ratio` is turned so that more than 1 is better.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(PATH_COLUMNS)
    writer.writerows(map(harmless.cell, row) for row in _timed_rows(comparison))
    for one in comparison.validated:
        place = (one.placement, one.locality, one.nodes, one.ranks, one.program)
        for benchmark in one.benchmarks:
            state = UNTIMED if one.state is State.OK else f"{UNTIMED}: {one.state}"
            row = (*place, benchmark, None, None, one.arm, one.transport, state) + (None,) * 9
            writer.writerow(map(harmless.cell, row))
    return buffer.getvalue()


def _timed_rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    for panel in comparison.panels:
        curve = panel.curve
        best = find_best(comparison, panel)
        place = (curve.placement, curve.locality, curve.nodes or None, curve.ranks or None)
        for arm in panel.arms:
            for point in arm.points:
                cell = panel.cell(arm.arm, point.size)
                yield (
                    *place,
                    curve.program,
                    curve.benchmark,
                    point.size,
                    curve.unit,
                    arm.arm,
                    arm.transport,
                    "timed",
                    len(point.values),
                    point.median,
                    point.minimum,
                    point.maximum,
                    _quotient(curve, cell, is_baseline=arm.arm == comparison.spec.baseline),
                    *_ratio(cell),
                    "yes" if best.get(point.size) == arm.arm else "no",
                )


def _quotient(curve: Curve, cell: Cell | None, *, is_baseline: bool) -> float | None:
    """Return value over value; from the ratio, which was made of values that are not rounded."""
    if is_baseline:
        return 1.0
    if cell is None or cell.ratio is None:
        return None
    return float(f"{cell.ratio if curve.higher_is_better else 1 / cell.ratio:.6g}")


def _ratio(cell: Cell | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if cell is None else (cell.ratio, cell.low, cell.high)
