"""What several programs say of the same stands side by side, and only that."""

from __future__ import annotations

import pytest

from reportsamples import comparison_of
from stackproof.compare.model import Comparison
from stackproof.core.value import replace
from stackproof.report.render import render_html


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    found = comparison_of()
    assert isinstance(found, Comparison)
    return found


def with_osu(comparison: Comparison, benchmark: str) -> Comparison:
    """Return it with one benchmark's panels once more, as if OSU's program had measured it."""
    more = tuple(
        replace(panel, curve=replace(panel.curve, program="osu_latency"))
        for panel in comparison.panels
        if panel.curve.benchmark == benchmark
    )
    assert more
    return replace(comparison, panels=(*comparison.panels, *more))


def part_of(comparison: Comparison) -> str:
    """Return the part of the report, empty where there is none."""
    part = render_html(comparison).partition('<section id="programs">')[2]
    return part.partition("</section>")[0]


def test_one_program_has_no_such_part(comparison: Comparison) -> None:
    assert part_of(comparison) == ""


def test_each_point_of_two_programs_is_a_row(comparison: Comparison) -> None:
    html = part_of(with_osu(comparison, "latency"))
    assert "osu_latency" in html
    assert comparison.panels[0].curve.program in html
    panels = [panel for panel in comparison.panels if panel.curve.benchmark == "latency"]
    points = sum(len(panel.points(arm)) for panel in panels for arm in ("mpich", "openmpi"))
    assert html.count("<tr>") == 1 + points
    assert "bandwidth" not in html
    cell = next(one for one in panels[0].judgements if one.arm == "mpich").cells[0]
    assert f"{cell.ratio:.2f}" in html


def test_a_benchmark_without_sizes_is_one_row_for_each_challenger(comparison: Comparison) -> None:
    html = part_of(with_osu(comparison, "barrier"))
    places = sum(panel.curve.benchmark == "barrier" for panel in comparison.panels)
    assert html.count("<tr>") == 1 + 2 * places
