"""What the report says of paths: the section, its figures' data, its CSV, its colours."""

from __future__ import annotations

import csv
import importlib.resources
import io
import itertools
import json
import math
import re
from typing import Any

import pytest

from stackproof.compare.compare import compare
from stackproof.compare.model import CompareOptions, Comparison
from stackproof.core.value import replace
from stackproof.report.charts import default_size
from stackproof.report.render import render_csv, render_html, render_markdown, render_paths_csv
from synthetic import PATHS, simulate_paths


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(simulate_paths(), CompareOptions())


@pytest.fixture(scope="module")
def html(comparison: Comparison) -> str:
    return render_html(comparison)


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'id="chart-data">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_section_has_a_sentence_for_each_placement(comparison: Comparison, html: str) -> None:
    section = html.partition('id="transports"')[2]
    assert len(comparison.rankings) == 3
    for ranking in comparison.rankings:
        assert ranking.sentence in section
    assert "ompi-lnx (lnx) is best in alltoall at 8 B" in section
    assert 'href="#transports"' in html
    assert "2x2: 4 ranks on 2 nodes" in section
    for line in (ranking.sentence for ranking in comparison.rankings):
        assert line.split(":")[0].replace("_", "\\_")[:20] in render_markdown(comparison)


def test_ids_are_unique_and_links_lead_to_them(html: str) -> None:
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {link for link in re.findall(r'href="#([^"]+)"', html) if link not in ids} == set()


def test_hostile_names_of_arms_stay_text() -> None:
    evil = "<img src=x onerror=alert(1)>"
    results = simulate_paths(blocks=5)
    renamed = [
        replace(one, arm=evil if one.arm == "ompi-lnx" else one.arm) for one in results.measurements
    ]
    arms = tuple(evil if arm == "ompi-lnx" else arm for arm in results.spec.challengers)
    spec = replace(results.spec, challengers=arms)
    html = render_html(
        compare(
            replace(results, spec=spec, measurements=tuple(renamed)),
            CompareOptions(minimum_launches=5),
        )
    )
    assert "<img" not in html
    assert html.count("&lt;img src=x") > 10


def test_curves_carry_their_paths(html: str) -> None:
    data = data_of(html)
    assert data["byPath"] is True
    assert {arm["name"]: arm["paths"] for arm in data["arms"]} == {
        "impi": ["tcp", "shm"], "impi again": ["tcp", "shm"],
        "ompi-lnx": ["lnx"], "ompi-shm": ["shm"], "ompi-ofi": ["tcp"],
    }  # fmt: skip


def test_figures_over_ranks_have_timed_points_and_places_that_were_checked(html: str) -> None:
    data = data_of(html)
    group = next(one for one in data["scaling"] if one["title"].startswith("alltoall"))
    assert [(c["name"], c["ranks"], c["nodes"], c["timed"]) for c in group["counts"]] == [
        ("inter-node", 2, 2, True), ("2x2", 4, 2, True), ("2x4", 8, 2, False),
    ]  # fmt: skip
    assert {one["arm"] for one in group["arms"]} == {"impi", "ompi-lnx", "ompi-ofi"}
    names = {cell[0] for one in group["arms"] for cell in one["cells"]}
    assert names == {"inter-node", "2x2"}
    assert all(f'id="{one["id"]}"' in html for one in data["scaling"])
    assert "latency over ranks, intra-node" not in {one["title"] for one in data["scaling"]}


def test_what_was_only_validated_is_said_with_its_fault(html: str) -> None:
    section = html.partition('id="validated"')[2].partition("</section>")[0]
    assert section.count("<tr>") == 1 + 4
    assert "bad: 3 received bytes were wrong" in section
    assert "ompi-lnx (lnx)" in section


def test_numbers_by_path_mark_the_best(html: str) -> None:
    caption = "alltoall, inter-node, by path: µs"
    table = html.partition(f"<caption>{caption}</caption>")[2].partition("</table>")[0]
    assert table.count("★") == 1
    assert "ompi-lnx (lnx)" in table
    assert "impi again" not in table


def test_csv_has_every_point_with_the_quotient_of_published_plots(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(render_paths_csv(comparison))))
    timed = [row for row in rows if row["state"] == "timed"]
    points = [p for panel in comparison.panels for arm in panel.arms for p in arm.points]
    assert len(timed) == len(points)
    by = {(r["placement"], r["benchmark"], r["arm"], r["size_bytes"]): r for r in timed}
    ours, base = (by["inter-node", "alltoall", arm, "8"] for arm in ("ompi-lnx", "impi"))
    assert ours["transport"] == "lnx"
    assert ours["best"] == "yes"
    assert float(ours["quotient"]) == pytest.approx(
        float(ours["median"]) / float(base["median"]), rel=0.01
    )
    assert float(ours["quotient"]) < 1 < float(ours["ratio"])
    assert base["quotient"] == "1.0"
    checked = [row for row in rows if row["state"] != "timed"]
    assert {row["placement"] for row in checked} == {"2x4"}
    assert {row["state"] for row in checked} == {
        "validated, not timed",
        "validated, not timed: bad",
    }
    assert all(row["median"] == "" for row in checked)


def test_the_table_of_judged_cells_names_the_paths(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(comparison))))
    assert {(row["challenger"], row["transport"]) for row in rows} >= set(PATHS.items())
    assert {(row["placement"], row["ranks"], row["nodes"]) for row in rows} == {
        ("intra-node", "2", "1"), ("inter-node", "2", "2"), ("2x2", "4", "2"),
    }  # fmt: skip


def test_the_same_paths_make_no_section() -> None:
    results = simulate_paths(blocks=5)
    same = [replace(one, case=replace(one.case, transport="auto")) for one in results.measurements]
    plain = compare(replace(results, measurements=tuple(same)))
    html = render_html(plain)
    assert 'id="transports"' not in html
    assert 'id="curves"' in html
    assert data_of(html)["byPath"] is False
    assert data_of(html)["scaling"]  # several numbers of ranks are shown all the same


@pytest.mark.parametrize(
    ("sizes", "first"), [([8, 8192, 65536], 8192), ([0], 0), ([1 << 20, 4 << 20], 1 << 20)]
)
def test_the_size_that_is_shown_first(sizes: list[int], first: int) -> None:
    assert default_size(sizes) == first


# --- colours --------------------------------------------------------------------------------

# What people without one kind of cones see (G. M. Machado, M. M. Oliveira and L. A. F. Fernandes,
# "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 15(6), 2009,
# severity 1.0).
SEEN = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no L cones": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "no M cones": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                   (-0.011820, 0.042940, 0.968881)),
    "no S cones": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """Return CIE L*a*b* of linear sRGB, white D65."""
    weights = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(w * v for w, v in zip(row, rgb, strict=True)) for row in weights]
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in (v / white for v, white in zip(xyz, (0.95047, 1.0, 1.08883), strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    rgb = linear(colour)
    mixed = [sum(w * v for w, v in zip(row, rgb, strict=True)) for row in matrix]
    return lab([min(1.0, max(0.0, v)) for v in mixed])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_six_curves_and_the_baseline_differ_for_all_eyes(scheme: int) -> None:
    style = importlib.resources.files("stackproof.report.assets").joinpath("report.css")
    text = style.read_text()
    colours = [
        re.findall(rf"--{name}: (#[0-9a-f]{{6}})", text)[scheme]
        for name in ("baseline", *(f"series-{n}" for n in range(6)))
    ]
    sheet = re.findall(r"--sheet: (#[0-9a-f]{6})", text)[scheme]
    for matrix in SEEN.values():
        for one, other in itertools.combinations(colours, 2):
            assert math.dist(seen(one, matrix), seen(other, matrix)) > 20

    def light(colour: str) -> float:
        return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))

    for colour in colours:  # WCAG 2.2, criterion 1.4.11: 3 to 1 for what is drawn
        brighter, darker = sorted((light(colour), light(sheet)), reverse=True)
        assert (brighter + 0.05) / (darker + 0.05) > 3
