"""A comparison to what several programs say of the same, point by point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from stackproof.compare.model import Comparison, Panel
from stackproof.core.numbers import size_text, value_text
from stackproof.report.markup import DASH, element, table
from stackproof.report.tables import cell_word


def side_by_side_part(comparison: Comparison) -> Markup | None:
    """Return each point that several programs measured; None where no two did."""
    groups = _groups(comparison)
    if not groups:
        return None
    programs = tuple(dict.fromkeys(panel.curve.program for group in groups for panel in group))
    rows = [row for group in groups for row in _rows(comparison, group, programs)]
    return element(
        "section",
        element("h2", "The same by several programs"),
        element(
            "p",
            "Each program has a verdict of its own. They take their means differently, so that the "
            "values differ; of who is faster they should say the same.",
        ),
        table(
            "Ratio to the baseline, with the medians of baseline and challenger",
            ("benchmark", "placement", "size", "arm", *programs),
            rows,
        ),
        id="programs",
    )


def _groups(comparison: Comparison) -> list[list[Panel]]:
    """Return the panels of each benchmark and placement that several programs have."""
    found: dict[tuple[str, str], list[Panel]] = {}
    for panel in comparison.panels:
        found.setdefault((panel.curve.placement, panel.curve.benchmark), []).append(panel)
    return [group for group in found.values() if len({one.curve.program for one in group}) > 1]


def _rows(
    comparison: Comparison, group: Sequence[Panel], programs: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each challenger and size that two programs or more have."""
    by_program = {panel.curve.program: panel for panel in group}
    curve = group[0].curve
    for arm in comparison.spec.challengers:
        sizes = sorted({size for panel in group for size in panel.points(arm)})
        for size in sizes:
            said = [_said(comparison, by_program.get(name), arm, size) for name in programs]
            if sum(text != DASH for text in said) > 1:
                where = size_text(size) if curve.sized else DASH
                yield (curve.title, curve.placement, where, arm, *said)


def _said(comparison: Comparison, panel: Panel | None, arm: str, size: int) -> str:
    judgement = panel.judgement(arm) if panel is not None else None
    cell = next((one for one in judgement.cells if one.size == size), None) if judgement else None
    if panel is None or cell is None:
        return DASH
    points = (panel.points(comparison.spec.baseline).get(size), panel.points(arm).get(size))
    values = " and ".join(DASH if one is None else value_text(one.median) for one in points)
    return f"{cell_word(cell)} ({values} {panel.curve.unit})"
