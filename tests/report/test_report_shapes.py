"""What a report says of the shapes of curves, and where it draws thresholds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stackproof.bench.import_outputs import OutputFile, import_outputs
from stackproof.bench.import_places import ImportSetup
from stackproof.compare.compare import compare
from stackproof.compare.curve_shapes import curves_of, look
from stackproof.compare.model import Comparison
from stackproof.core.value import replace
from stackproof.knowledge.effects.load import load_curves, load_knowledge
from stackproof.knowledge.model import CurveLevel
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.report.render import render_html, render_markdown
from stackproof.report.shapes import lines_of
from stackproof.results.case import Locality
from synthetic import Noise, Plan, simulate

KNOWLEDGE = load_knowledge(settings=False)
BOUNCE = "alps-gh200-mpich-4-3-1-inter-device-bandwidth"


def comparison(
    curve_id: str, *, env: dict[str, str] | None = None, fabric: str = "slingshot-11"
) -> Comparison:
    curve = next(curve for curve in load_curves() if curve.id == curve_id)
    tag = "-CUDA" if curve.memory is BufferPlace.DEVICE else ""
    lines = [f"# OSU MPI{tag} Bandwidth Test v7.5", "# Size  Bandwidth (MB/s)"]
    lines += [f"{point.size:<10}{point.printed:>20}" for point in curve.points]
    setup = ImportSetup(
        name="r", locality=curve.locality, memory=curve.memory, limit=25000.0, fabric=fabric,
        env=env or {},
    )  # fmt: skip
    file = OutputFile(arm="theirs", name="f", text="\n".join(lines) + "\n")
    return compare(import_outputs([file], setup).results)


def data_of(html: str) -> Any:
    found = re.search(r'id="chart-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_fault_is_in_the_table_on_the_curve_and_in_markdown() -> None:
    made = comparison(BOUNCE)
    marks = look(curves_of(made), KNOWLEDGE)
    html = render_html(made, marks=marks)
    assert "What the shapes of the curves tell" in html
    (panel,) = data_of(html)["panels"]
    assert [(mark["rule"], mark["size"], mark["arm"]) for mark in panel["marks"]] == [
        ("S05", 256, "theirs")
    ]
    assert "S05 device messages" in render_markdown(made, marks)


def test_what_holds_on_many_curves_has_one_row_and_is_no_fault() -> None:
    """Launches that differ are noise: one row with all places, and no arrow on any figure."""
    noisy = Noise(launch=0.4, size=0.02)
    results = simulate(Plan(noise=noisy, sizes=(8, 65536, 1 << 20), blocks=8))
    made = compare(results)
    marks = [mark for mark in look(curves_of(made), KNOWLEDGE) if mark.rule.id == "S18"]
    assert len(marks) > 10
    assert {mark.rule.level for mark in marks} == {CurveLevel.NOISE}
    html = render_html(made, marks=marks)
    (table,) = re.findall(
        r"<caption>Rules that hold on a curve</caption>.*?</table>", html, re.DOTALL
    )
    assert table.count('<th scope="row">S18</th>') == 1
    assert f"{len(marks)} places on {len(marks)} curves of impi, mpich" in table
    assert table.count("<li>") == len(marks)
    assert [panel["marks"] for panel in data_of(html)["panels"]] == [[]] * len(made.panels)
    assert "S18" not in render_markdown(made, marks)


def test_a_sag_of_one_launch_is_none() -> None:
    """4 MiB is well below the best, and in one launch it is not."""
    values = {1 << n: 24000.0 * min(1.0, (1 << n) / 65536) for n in range(3, 23)}
    values[1 << 22] = 0.85 * 24000
    curve = next(iter(curves_of(comparison("alps-gh200-mpich-4-3-1-inter-host-bandwidth"))))
    steady = (0.845 * 24000, 0.85 * 24000, 0.855 * 24000)
    for last, found in ((steady, ["S04"]), ((*steady, 0.99 * 24000), [])):
        launches = {1 << 16: (24000.0,) * len(last), 1 << 22: last}
        made = replace(curve, values=values, launches=launches)
        ids = [mark.rule.id for mark in look([made], KNOWLEDGE)]
        assert [one for one in ids if one == "S04"] == found


def test_what_is_no_fault_is_not_drawn_on_a_curve() -> None:
    made = comparison("alps-gh200-mpich-4-3-1-inter-host-bandwidth")
    marks = look(curves_of(made), KNOWLEDGE)
    html = render_html(made, marks=marks)
    assert [mark.rule.id for mark in marks] == ["S03"]
    assert data_of(html)["panels"][0]["marks"] == []
    assert "S03" not in render_markdown(made, marks)


def test_without_marks_there_is_no_such_part() -> None:
    assert "What the shapes" not in render_html(comparison(BOUNCE))


@pytest.mark.parametrize(
    ("env", "fabric", "lines"),
    [
        ({}, "slingshot-11", [(192, "command of the NIC")]),
        ({}, "ethernet", []),
        ({"FI_CXI_RDZV_THRESHOLD": "16384"}, "", [(18433, "eager limit of cxi")]),
        (
            {"FI_CXI_RDZV_THRESHOLD": "2048", "FI_CXI_RDZV_GET_MIN": "0"},
            "",
            [(2048, "eager limit of cxi")],
        ),
        ({"FI_CXI_RDZV_THRESHOLD": "many"}, "", []),
        ({"MPICH_GPU_IPC_THRESHOLD": "8192"}, "", []),
    ],
)
def test_thresholds_stand_where_the_run_set_them(
    env: dict[str, str], fabric: str, lines: list[tuple[int, str]]
) -> None:
    made = comparison(BOUNCE, env=env, fabric=fabric)
    assert lines_of(made, made.panels[0]) == lines


def test_thresholds_inside_a_node_are_others() -> None:
    made = comparison(
        "alps-gh200-mpich-4-3-1-intra-host-bandwidth",
        env={"MPIR_CVAR_CH4_IPC_XPMEM_P2P_THRESHOLD": "65536", "FI_CXI_RDZV_THRESHOLD": "16384"},
    )
    assert lines_of(made, made.panels[0]) == [(65536, "XPMEM")]


def test_a_benchmark_without_sizes_has_no_lines() -> None:
    made = comparison(BOUNCE)
    curve = replace(made.panels[0].curve, sized=False)
    assert lines_of(made, replace(made.panels[0], curve=curve)) == []


def test_locality_is_that_of_the_placement() -> None:
    (curve,) = curves_of(comparison(BOUNCE))
    assert (curve.locality, curve.memory, curve.slingshot) == (
        Locality.INTER, BufferPlace.DEVICE, True,
    )  # fmt: skip
