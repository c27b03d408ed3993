"""What the report says of paths: which is best where, over ranks, as a table and as CSV."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from stackproof.compare.model import Cell, Comparison, Curve, Panel, Validated
from stackproof.compare.ranking import arm_text
from stackproof.core import harmless
from stackproof.core.numbers import ratio_text, size_text, value_text
from stackproof.report.markup import DASH, details, element, joined, table
from stackproof.report.tables import curve_label
from stackproof.report.verdict import unit_text
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


def paths_lead(comparison: Comparison) -> Markup | None:
    """Return one sentence for each placement; None where all arms took the same path."""
    if not comparison.rankings:
        return None
    return element(
        "div",
        element(
            "ul",
            joined(element("li", ranking.sentence) for ranking in comparison.rankings),
            class_="findings",
        ),
        element(
            "p",
            f"Best ({BEST}) is an arm whose interval lies above that of every other, and above 1, "
            f"where {comparison.spec.baseline} stands, by more than the noise. Otherwise nobody "
            "is: a median alone decides nothing.",
            class_="small",
        ),
        _download(comparison),
    )


def _download(comparison: Comparison) -> Markup:
    packed = base64.b64encode(render_paths_csv(comparison).encode()).decode("ascii")
    return element(
        "p",
        element(
            "a",
            "All numbers of this section as CSV",
            href=f"data:text/csv;charset=utf-8;base64,{packed}",
            download="transports.csv",
        ),
    )


def panel_numbers(comparison: Comparison, panel: Panel) -> Markup | None:
    """Return a panel's medians and ratios by path; None where all arms took the same path."""
    if not comparison.rankings:
        return None
    arms = [curve.arm for curve in panel.arms if curve.arm != comparison.spec.null]
    head = ["size", *(arm_text(arm, panel.transport(arm)) for arm in arms)]
    sizes = sorted({point.size for curve in panel.arms for point in curve.points})
    best = _best_of(comparison, panel)
    rows: list[list[str | Markup]] = [
        [
            size_text(size) if panel.curve.sized else "no size",
            *(_number(panel, arm, size, is_best=best.get(size) == arm) for arm in arms),
        ]
        for size in sizes
    ]
    unit = unit_text(panel.curve.unit)
    caption = f"{curve_label(comparison, panel.curve)}, {panel.curve.placement}, by path: {unit}"
    return details("Numbers", table(caption, head, rows, class_="paths"))


def _number(panel: Panel, arm: str, size: int, *, is_best: bool) -> Markup:
    point, cell = panel.points(arm).get(size), _cell(panel, arm, size)
    if point is None:
        return element("td", element("span", "not measured", class_="quiet"))
    mark = element("span", f" {BEST}", title="best: above every other interval") if is_best else ""
    ratio = ""
    if cell is not None and cell.ratio is not None:
        ratio = ratio_text(cell.ratio)
        if cell.low is not None and cell.high is not None:
            ratio += f" ({ratio_text(cell.low)} to {ratio_text(cell.high)})"
    return element(
        "td",
        element("b", value_text(point.median)),
        mark,
        element("span", ratio, class_="interval") if ratio else None,
    )


def _cell(panel: Panel, arm: str, size: int) -> Cell | None:
    judgement = panel.judgement(arm)
    if judgement is None:
        return None
    return next((cell for cell in judgement.cells if cell.size == size), None)


def _best_of(comparison: Comparison, panel: Panel) -> dict[int, str]:
    curve = panel.curve
    return {
        size: one.arm
        for ranking in comparison.rankings
        if ranking.placement == curve.placement
        for one in ranking.best
        if (one.program, one.benchmark) == (curve.program, curve.benchmark)
        for size in one.sizes
    }


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


def scaling_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return what the script draws over ranks."""
    return [
        _scaling(comparison, panels, index)
        for index, panels in enumerate(scaling_groups(comparison))
    ]


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
        "sizes": sorted(
            {point.size for panel in panels for arm in panel.arms for point in arm.points}
        ),
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
            cell = _cell(panel, arm, size)
            ratio = (None, None, None) if cell is None else (cell.ratio, cell.low, cell.high)
            values = (point.median, point.minimum, point.maximum)
            rows.append([panel.curve.placement, size, *values, *ratio, panel.transport(arm)])
    return rows


def scaling_part(comparison: Comparison) -> Markup | None:
    """Return the figures over ranks; None where each benchmark was run with one number of them."""
    groups = scaling_groups(comparison)
    if not groups:
        return None
    figures = []
    for index, panels in enumerate(groups):
        curve = panels[0].curve
        label = curve_label(comparison, curve)
        better = "higher is better" if curve.higher_is_better else "lower is better"
        title = f"{label[:1].upper()}{label[1:]}, {curve.locality}"
        figures.append(
            element(
                "figure",
                element(
                    "figcaption",
                    element("b", title),
                    f" {unit_text(curve.unit)}, {better} ",
                    _size_choice(panels, index) if curve.sized else None,
                ),
                element(
                    "div",
                    id=scaling_id(index),
                    class_="plot",
                    role="img",
                    aria_label=f"{title}: values and ratios by number of ranks; the same numbers "
                    "are in the tables",
                ),
            )
        )
    return element(
        "div",
        element("h3", "Over ranks"),
        element(
            "p",
            "At one message size, by number of ranks and nodes. Where there were more ranks than "
            f"CPUs the results were {UNTIMED}, and no point is drawn.",
        ),
        element("div", *figures, class_="figures"),
    )


def _size_choice(panels: Sequence[Panel], index: int) -> Markup:
    sizes = sorted({point.size for panel in panels for arm in panel.arms for point in arm.points})
    chosen = default_size(sizes)
    options = [
        element("option", size_text(size), value=str(size), selected=size == chosen)
        for size in sizes
    ]
    return element(
        "label",
        "message size ",
        element("select", *options, class_="size", data_figure=scaling_id(index)),
    )


def default_size(sizes: Sequence[int]) -> int:
    """Return the size that is shown first: the one nearest to 8 KiB."""
    return min(sizes, key=lambda size: abs(max(size, 1).bit_length() - (8192).bit_length()))


def validated_part(comparison: Comparison) -> Markup | None:
    """Return what was checked with more ranks than CPUs; None where nothing was."""
    if not comparison.validated:
        return None
    head = ("placement", "ranks", "nodes", "arm", "program", "benchmarks", "bytes", "found")
    ordered = sorted(comparison.validated, key=lambda one: (one.nodes, one.ranks, one.placement))
    return element(
        "section",
        element("h2", f"{UNTIMED[:1].upper()}{UNTIMED[1:]}"),
        element(
            "p",
            "More ranks than CPUs wait for each other's turns, so no time of theirs means "
            "anything: every byte that they received was compared, and none of this takes part in "
            "a verdict.",
        ),
        table("Placements that were validated and not timed", head, map(_validated_row, ordered)),
        id="validated",
    )


def _validated_row(one: Validated) -> list[str | Markup]:
    style = {State.OK: "pass", State.BAD: "fail", State.UNKNOWN: "open"}[one.state]
    return [
        one.placement,
        str(one.ranks),
        str(one.nodes),
        arm_text(one.arm, one.transport),
        one.program,
        ", ".join(one.benchmarks),
        f"{one.received:,}" if one.received else DASH,
        element("td", f"{one.state}: {one.evidence}", class_=f"state {style}"),
    ]


# --- CSV ------------------------------------------------------------------------------------


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
        best = _best_of(comparison, panel)
        place = (curve.placement, curve.locality, curve.nodes or None, curve.ranks or None)
        for arm in panel.arms:
            for point in arm.points:
                cell = _cell(panel, arm.arm, point.size)
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
