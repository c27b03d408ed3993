"""A comparison's curves, by size and over ranks, as data for the report's script; no style here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stackproof.compare.model import ArmCurve, Cell, Comparison, Curve, Panel
from stackproof.knowledge.reference_curves import ReferenceCurve, Role
from stackproof.report.tables import curve_label, short_reason
from stackproof.report.thresholds import lines_of
from stackproof.report.words import cell_words, unit_text


def chart_data(
    comparison: Comparison,
    curves: Sequence[ReferenceCurve],
    overlay: Sequence[str],
) -> dict[str, Any]:
    """Return everything the script draws; `overlay` are the ids of curves shown from the start."""
    return {
        "arms": [
            {
                "name": arm,
                "role": _role(comparison, arm),
                "style": _style(comparison, arm),
                "paths": _paths(comparison, arm),
            }
            for arm in comparison.arms
        ],
        "byPath": bool(comparison.rankings),
        "panels": [
            {
                **_panel(comparison, panel, index, curves),
                "lines": [list(line) for line in lines_of(comparison, panel)],
            }
            for index, panel in enumerate(comparison.panels)
        ],
        "scaling": [
            _scaling(comparison, panels, index)
            for index, panels in enumerate(scaling_groups(comparison))
        ],
        "overlay": list(overlay),
    }


def _paths(comparison: Comparison, arm: str) -> list[str]:
    """Return the paths that an arm took, where not all arms took the same."""
    if not comparison.rankings:
        return []
    return list(dict.fromkeys(p.transport(arm) for p in comparison.panels if p.transport(arm)))


def panel_id(index: int) -> str:
    """Return the id of a panel's element in the page."""
    return f"panel-{index}"


def _role(comparison: Comparison, arm: str) -> str:
    if arm == comparison.spec.baseline:
        return "baseline"
    return "null" if arm == comparison.spec.null else "challenger"


def _style(comparison: Comparison, arm: str) -> int:
    """Return a number for colour, dash and marker; the baseline and the null arm have their own."""
    challengers = comparison.spec.challengers
    return challengers.index(arm) if arm in challengers else -1


def _panel(
    comparison: Comparison, panel: Panel, index: int, curves: Sequence[ReferenceCurve]
) -> dict[str, Any]:
    curve = panel.curve
    return {
        "id": panel_id(index),
        "title": f"{curve_label(comparison, curve)}, {curve.placement}",
        "unit": unit_text(curve.unit),
        "sized": curve.sized,
        "higher": curve.higher_is_better,
        "margin": comparison.margins[curve.kind],
        "limit": panel.limit,
        "limitSource": panel.limit_source,
        "arms": [_arm(arm, single=not curve.sized) for arm in panel.arms],
        "ratios": [
            {
                "arm": judgement.arm,
                "cells": [
                    [cell.size, cell.ratio, cell.low, cell.high, _mark(cell), _said(cell)]
                    for cell in judgement.cells
                    if cell.ratio is not None
                ],
            }
            for judgement in panel.judgements
        ],
        "references": [
            {
                "id": reference.id,
                "label": reference_label(reference),
                "machine": reference.machine,
                "points": [[point.size, point.value] for point in reference.points],
            }
            for reference in curves
            if fits(reference, panel)
        ],
    }


def _mark(cell: Cell) -> str:
    return "SLOWER" if cell.seems_slower else cell.verdict.value


def _said(cell: Cell) -> str:
    why = short_reason(cell)
    return f"{cell_words(cell)}: {why}" if why else cell_words(cell)


def _arm(arm: ArmCurve, *, single: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "arm": arm.arm,
        "path": arm.transport,
        "points": [
            [point.size, point.median, point.minimum, point.maximum, point.percent_of_limit]
            for point in arm.points
        ],
    }
    if single:
        data["values"] = [list(point.values) for point in arm.points]
    return data


def fits(reference: ReferenceCurve, panel: Panel) -> bool:
    """Return whether a reference curve belongs on a panel: same benchmark, unit and locality."""
    return (
        reference.benchmark == panel.curve.benchmark
        and reference.unit == panel.curve.unit
        and reference.locality == panel.curve.locality
    )


def reference_label(reference: ReferenceCurve) -> str:
    """Return a reference curve's name with its machine and how it was measured."""
    fault = ", a known fault" if reference.role is Role.COUNTEREXAMPLE else ""
    return f"{reference.title} (machine {reference.machine}, {reference.tool}{fault})"


# --- over ranks -----------------------------------------------------------------------------


def scaling_groups(comparison: Comparison) -> tuple[tuple[Panel, ...], ...]:
    """Return the panels of one benchmark and locality, by ranks, where several counts were timed.

    One count is no curve; what was only validated beside it has a table of its own.
    """
    groups: dict[tuple[str, str, str], list[Panel]] = {}
    for panel in comparison.panels:
        curve = panel.curve
        groups.setdefault((curve.program, curve.benchmark, curve.locality), []).append(panel)
    return tuple(
        tuple(sorted(panels, key=lambda panel: (panel.curve.ranks, panel.curve.nodes)))
        for panels in groups.values()
        if len({panel.curve.placement for panel in panels}) > 1
    )


def _checked(comparison: Comparison, curve: Curve) -> tuple[str, ...]:
    """Return the placements at which a benchmark was validated and not timed."""
    found = [
        (one.ranks, one.nodes, one.placement)
        for one in comparison.validated
        if (one.program, one.locality) == (curve.program, curve.locality)
        and curve.benchmark in one.benchmarks
    ]
    return tuple(placement for _, _, placement in sorted(set(found)))


def scaling_id(index: int) -> str:
    """Return the id of a figure over ranks."""
    return f"ranks-{index}"


def _scaling(comparison: Comparison, panels: Sequence[Panel], index: int) -> dict[str, Any]:
    curve = panels[0].curve
    shapes = {one.placement: (one.ranks, one.nodes) for one in comparison.validated}
    untimed = _checked(comparison, curve)
    counts = [(p.curve.placement, p.curve.ranks, p.curve.nodes, True) for p in panels]
    counts += [(name, *shapes[name], False) for name in untimed]
    return {
        "id": scaling_id(index),
        "title": f"{curve_label(comparison, curve)} over ranks, {curve.locality}",
        "unit": unit_text(curve.unit),
        "sized": curve.sized,
        "margin": comparison.margins[curve.kind],
        "sizes": list_sizes(panels),
        "counts": [
            {"name": name, "ranks": ranks, "nodes": nodes, "timed": timed}
            for name, ranks, nodes, timed in sorted(counts, key=lambda one: (one[1], one[2]))
        ],
        "arms": [
            {"arm": arm, "cells": _over_ranks(panels, arm)}
            for arm in comparison.arms
            if arm != comparison.spec.null and any(panel.points(arm) for panel in panels)
        ],
    }


def _over_ranks(panels: Sequence[Panel], arm: str) -> list[list[Any]]:
    """Return `[placement, size, median, smallest, largest, ratio, low, high, path]` by panel."""
    rows = []
    for panel in panels:
        for size, point in panel.points(arm).items():
            cell = panel.cell(arm, size)
            ratio = (None, None, None) if cell is None else (cell.ratio, cell.low, cell.high)
            values = (point.median, point.minimum, point.maximum)
            rows.append([panel.curve.placement, size, *values, *ratio, panel.transport(arm)])
    return rows


def list_sizes(panels: Sequence[Panel]) -> list[int]:
    """Return the sizes that any arm has a point of, the smallest first."""
    return sorted({point.size for panel in panels for arm in panel.arms for point in arm.points})


def default_size(sizes: Sequence[int]) -> int:
    """Return the size that is shown first: the one nearest to 8 KiB."""
    return min(sizes, key=lambda size: abs(max(size, 1).bit_length() - (8192).bit_length()))
