"""The first screen of the report: facts in words, and a mark for every point."""

import re

import pytest

from reportsamples import FAST, SLOW, Page, comparison_of, unsure, with_cells
from stackproof.compare.compare import compare
from stackproof.compare.model import CompareOptions, Note
from stackproof.compare.verdicts import verdict_on
from stackproof.core.value import replace
from stackproof.report import render as report_render
from stackproof.report.charts import scaling_groups
from stackproof.report.evidence import leave_out_empty
from stackproof.report.summary import date_text, noise_text
from stackproof.report.words import DASH
from synthetic import FOUR, INTER, INTRA, SIZES, Noise, Plan, simulate, simulate_paths


@pytest.fixture(scope="module")
def comparison():
    return comparison_of()


@pytest.fixture(scope="module")
def html(comparison):
    return report_render.render_html(comparison)


@pytest.mark.parametrize(
    ("created", "text"),
    [
        ("2026-01-02T03:04:05Z", "2 January 2026, 03:04 UTC"),
        ("2026-11-22T01:30:00+02:00", "21 November 2026, 23:30 UTC"),
        ("2026-11-22T01:30:00", "22 November 2026, 01:30"),
        ("some day", "some day"),
    ],
)
def test_dates_are_words(created, text):
    assert date_text(created) == text


def test_the_first_screen_says_with_what_on_what_and_when(comparison):
    spec = replace(
        comparison.spec,
        host={
            "cpu": "EPYC 7763", "cpus": "64", "kernel": "Linux 5.14", "fabric": "slingshot-11",
            "scheduler": "Slurm 23.02, job 7", "nodes": "nid001, nid002", "link rate": "10gbit",
        },
        arms={
            name: replace(arm, mpi={"family": "mpich", "version": "4.3.1"})
            if name == "mpich" else arm
            for name, arm in comparison.spec.arms.items()
        },
    )  # fmt: skip
    text = Page(report_render.render_html(replace(comparison, spec=spec))).text
    first, _, rest = text.partition("challenger mpich against impi")
    for said in (
        "2 January 2026, 03:04 UTC, with stackproof 0.0.0", "EPYC 7763, 64 CPUs, Linux 5.14",
        "Slurm 23.02, job 7, nid001, nid002, Slingshot-11, links of 10gbit, 1,250 MB/s each way",
        "impi (baseline): impi 1.2.3", "mpich: MPICH 4.3.1", "10 planned per arm and placement",
        "margins latency 10 %, bandwidth 5 %", "impi against itself differs by",
    ):  # fmt: skip
        assert said in first, said
    assert rest


def test_the_noise_of_the_null_arm_is_said_with_its_worst_place(comparison):
    off = {"impi again": {("inter-node", "latency"): {8: 0.4}}}
    text = noise_text(
        compare(simulate(Plan(slower=off, noise=Noise(launch=0.003, size=0.003, block=0.01))), FAST)
    )
    assert re.search(r"by up to 1[45]\d % \(latency inter-node 8 B\)", text)
    assert "the same within the margins at 91 of 92 points" in text
    assert "no null arm" in noise_text(compare(simulate(Plan(null=None, sizes=(8,))), FAST))


def test_the_picture_has_one_mark_for_each_point(comparison, html):
    picture = html.split('id="picture"')[1].split("</section>")[0].split("<table")[1]
    total = sum(len(j.cells) for panel in comparison.panels for j in panel.judgements)
    assert len(re.findall(r"<path d=", picture)) == total
    failed = sum(verdict.failed for verdict in comparison.verdicts)
    assert picture.count('class="fail"><title>') == failed > 0
    assert html.index('id="picture"') < html.index('id="verdict"')
    assert "mpich, latency, inter-node: 11 FAIL" in picture or "FAIL" in picture


def test_each_mark_leads_to_a_row_and_strips_say_how_slow(html):
    page = Page(html)
    picture = html.split('id="picture"')[1].split("</section>")[0]
    targets = re.findall(r'<a href="#(row-[0-9-]+)"', picture)
    assert len(targets) == len(set(targets)) > 0
    assert set(targets) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert re.findall(r'class="lowest fail">([^<]+)<', picture) == ["0.67"]


def test_rows_without_a_fail_are_those_that_the_filter_hides(comparison, html):
    rows = re.findall(r'<tr(?: class="(fine)")? id="row-', html)
    failed = sum(verdict.failed for verdict in comparison.verdicts)
    assert [kind for kind in rows if not kind] == [""] * failed
    assert 'id="failed-only"' in html


def test_the_first_lines_say_how_fast_each_challenger_is(html):
    items = re.findall(r"<li>(.*?)</li>", html.split('class="headlines"')[1].split("</ul>")[0])
    said = [re.sub("<[^>]+>", "", item) for item in items]
    assert said[0].startswith("mpich: between nodes 33 % slower at 11 of 47 points, as fast from")
    assert said[1:] == ["openmpi: as fast everywhere"]
    targets = re.findall(r'href="#([^"]+)"', "".join(items))
    assert all(f'id="{target}"' in html for target in targets)
    assert html.index('class="headlines"') < html.index('id="picture"')


def test_warnings_stand_before_notes_and_many_notes_are_folded(comparison):
    notes = [Note(level="note", text=f"small {at}") for at in range(4)]
    made = replace(comparison, notes=(*notes, Note(level="warning", text="look here")))
    text = report_render.render_html(made)
    assert (
        text.index("look here") < text.index("<summary>4 notes</summary>") < text.index("small 0")
    )
    few = report_render.render_html(replace(comparison, notes=tuple(notes[:2])))
    assert "2 notes</summary>" not in few
    assert "small 1" in few


def test_cells_have_the_medians_of_both(html):
    assert re.search(r'class="value">[\d.,]+ → [\d.,]+ µs<', html)


def test_slower_and_not_proven_has_its_own_mark_and_legend(comparison, html):
    legend = html.split('class="legend')[1].split("</p>")[0]
    for text in ("PASS", "FAIL: slower, proven", "slower, not proven", "undecided"):
        assert text in legend
    made = with_cells(comparison, lambda cell: unsure(size=cell.size))
    text = report_render.render_html(made)
    assert text.count('class="slower"><title>') == 2 * len(SIZES) + 1
    assert "\u25bd" in text
    assert "may be chance; ~14 launches" in text
    assert "47 slower, not proven" not in text  # the card counts what compare() counted


def test_cards_count_what_looks_slower():
    comparison = compare(simulate(Plan(sizes=(8,), slower=SLOW)), FAST)
    made = with_cells(comparison, lambda cell: unsure(size=cell.size))
    verdict = verdict_on("mpich", made.panels, "impi", is_null=False)
    assert verdict.unproven == verdict.inconclusive > 0
    made = replace(made, verdicts=(verdict, *made.verdicts[1:]))
    assert f"; slower but not proven at {verdict.unproven}." in report_render.render_html(made)


def test_columns_in_which_nothing_stands_are_left_out():
    head, rows = leave_out_empty(("curve", "T0", "B"), [["a", DASH, "1"], ["b", DASH, DASH]])
    assert (head, rows) == (["curve", "B"], [["a", "1"], ["b", DASH]])
    few = comparison_of(sizes=(262144, 1 << 20), benchmarks=("latency",), slower={})
    table = report_render.render_html(few).split("<caption>Hockney")[1].split("</table>")[0]
    assert ">T0<" not in table
    assert ">B\u221e<" in table


def test_more_than_the_limit_is_marked_and_explained():
    results = simulate(Plan(benchmarks=("bandwidth",), sizes=(1 << 20,)))
    assert "More than the limit" not in report_render.render_html(compare(results, FAST))
    limits = {"inter-node": {"MB/s": 1000.0, "source": "a guess"}}
    spec = replace(results.spec, limits=limits)
    over = report_render.render_html(compare(replace(results, spec=spec), FAST))
    assert "* More than the limit: a transfer of milliseconds" in over
    assert re.search(r"\(11\d\* %\)", over)


def test_one_number_of_ranks_is_no_curve():
    several = compare(simulate_paths(blocks=6), CompareOptions())
    assert {len(panels) for panels in scaling_groups(several)} == {2}
    one = compare(simulate_paths(blocks=6, placements=(INTRA, INTER)), CompareOptions())
    assert scaling_groups(one) == ()
    two = compare(simulate_paths(blocks=6, placements=(INTRA, FOUR)), CompareOptions())
    assert scaling_groups(two) == ()
    assert "Over ranks" not in report_render.render_html(two)
    assert "Validated, not timed" in report_render.render_html(two)
