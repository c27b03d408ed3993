"""A comparison rendered: what must be in it, and what must never get out of it."""

import base64
import csv
import gzip
import hashlib
import importlib.resources
import io
import json
import re

import pytest

from reportsamples import FAST, Page, comparison_of, unsure, with_cells
from stackproof.compare.compare import compare
from stackproof.compare.model import Comparison, Verdict, Why
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.knowledge.reference_curves import BufferPlace, CurvePoint, ReferenceCurve
from stackproof.report import render as report_render
from stackproof.report import tables
from stackproof.report.headline import describe_next
from stackproof.results.case import Locality, Rank
from stackproof.results.measurement import Disturbance, RankFacts, State
from stackproof.results.model import ComparedArm
from stackproof.results.path import MessagePaths, Route, Statement, Topic
from stackproof.site.model import Source
from synthetic import INTER, SIZES, Plan, fault, simulate

COVERS = (
    "report/charts.py",
    "report/markdown.py",
    "report/ranking.py",
    "report/terminal.py",
    "report/words.py",
)

PLOTLY = importlib.resources.files("stackproof.report.assets") / "plotly"
HOSTILE = '<script>alert("x")</script>&\'</td>\u2028'


@pytest.fixture(scope="module")
def comparison():
    return comparison_of()


def reference(**changes):
    curve = ReferenceCurve(
        id="alps-inter-latency", title="Alps, two nodes: latency", machine="alps-gh200", nodes=2,
        ranks=2, locality=Locality.INTER, mpi="MPICH", transport="cxi", memory=BufferPlace.HOST,
        benchmark="latency", method="ping-pong", unit="us", tool="osu_latency", tool_version="7.4",
        source=Source(title="a page"), points=(CurvePoint(size=1, value=2.5, printed="2.5"),),
    )  # fmt: skip
    return replace(curve, **changes)


def chart(html):
    (found,) = re.findall(r'<script type="application/json" id="chart-data">(.*?)</script>', html)
    return json.loads(found)


def test_page_is_well_formed_and_ids_are_unique(comparison):
    page = Page(report_render.render_html(comparison))
    assert len(page.ids) == len(set(page.ids))
    for target in (value for tag, key, value in page.attributes if (tag, key) == ("a", "href")):
        assert target.startswith("#")
        assert target[1:] in page.ids


def test_nothing_is_loaded_from_elsewhere(comparison):
    html = report_render.render_html(comparison)
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "ping"}
    assert not [a for a in Page(html).attributes if a[1] in loading]
    without_plotly = re.sub(r'(<script type="text/plain" id="plotly">).*?<', r"\1<", html)
    assert len(without_plotly) < len(html)
    assert not re.findall(r"https?://|@import|url\(|fetch\(|XMLHttpRequest", without_plotly)
    assert "default-src 'none'" in html.replace("&#39;", "'")


def test_plotly_travels_inside(comparison):
    html = report_render.render_html(comparison)
    (packed,) = re.findall(r'id="plotly">(.*?)</script>', html)
    inside = gzip.decompress(base64.b64decode(packed))
    assert inside == (PLOTLY / "plotly-basic.min.js").read_bytes()


def test_plotly_is_what_its_page_says():
    """Name, version and digests, so that anybody can compare the file with the one published."""
    said = (PLOTLY / "README.md").read_text()
    (version,) = re.findall(r"^\| version \| (\S+) \|$", said, re.MULTILINE)
    first = f"/**\n* plotly.js (basic - minified) v{version}\n"
    assert (PLOTLY / "plotly-basic.min.js").read_text().startswith(first)
    digests = dict(re.findall(r"^\| SHA-256 of `(\S+)` \| `(\w+)` \|$", said, re.MULTILINE))
    assert digests == {
        name: hashlib.sha256((PLOTLY / name).read_bytes()).hexdigest()
        for name in ("plotly-basic.min.js", "LICENSE")
    }
    assert (PLOTLY / "LICENSE").read_text().startswith("MIT License\n")


def test_a_report_of_the_json_is_the_same_report(comparison):
    text = report_render.render_json(comparison)
    assert json.loads(text)["schema"] == "stackproof/comparison/1"
    assert noun.from_json(Comparison, text) == comparison
    for again in (noun.from_json(Comparison, text), comparison_of()):
        assert report_render.render_html(again) == report_render.render_html(comparison)
        assert report_render.render_csv(again) == report_render.render_csv(comparison)


def test_everything_needed_to_repeat_is_there(comparison):
    text = Page(report_render.render_html(comparison)).text
    spec = comparison.spec
    arm = spec.arms["mpich"]
    for needed in (
        arm.image_sha256, arm.lock_digest, " ".join(arm.recipe.split()),
        "stackproof bench bench.yaml -o results", "mpiexec -n 2", "FI_PROVIDER=tcp",
        "Simulated CPU", "6.1.0-simulated", "version: numpy", "10 Gbit/s set on the simulated link",
        "every byte as expected", "wrong-transport", "eth9", spec.created,
        "no interface sent anything", "not reject", "resolution_ns 1",
    ):  # fmt: skip
        assert needed in text
    for verdict in comparison.verdicts:
        assert verdict.sentence in text


def test_verdict_comes_before_everything_else(comparison):
    html = report_render.render_html(comparison)
    order = [html.index(f'id="{name}"') for name in ("verdict", "sizes", "curves", "noise")]
    assert order == sorted(order)
    assert html.index(comparison.verdicts[0].sentence) < order[1]


@pytest.mark.parametrize("render", [report_render.render_html, report_render.render_markdown])
def test_hostile_names_stay_text(render):
    results = simulate(Plan(challengers=("mpich",), sizes=(8, 1024), blocks=5))
    spec = replace(
        results.spec,
        name=HOSTILE,
        challengers=(HOSTILE,),
        arms={
            HOSTILE: ComparedArm(
                image=HOSTILE, recipe=HOSTILE, lock=HOSTILE, mpi={HOSTILE: HOSTILE}
            )
        },
        host={HOSTILE: HOSTILE},
        versions={HOSTILE: {"deep": HOSTILE}},
        limits={"inter-node": {"MB/s": 10, "source": HOSTILE}},
        command=(HOSTILE,),
    )
    measurements = tuple(
        replace(
            m, arm=HOSTILE, argv=(HOSTILE,), env={HOSTILE: HOSTILE},
            output=replace(m.output, mpi_library=HOSTILE),
        )
        if m.arm == "mpich"
        else m
        for m in results.measurements
    )  # fmt: skip
    spoiled = replace(results, spec=spec, measurements=measurements)
    bad = fault(spoiled, HOSTILE, [1], HOSTILE, HOSTILE)
    text = render(compare(bad, FAST))
    assert "<script>alert" not in text
    assert "</td>&" not in text
    if render is report_render.render_html:
        page = Page(text)
        assert HOSTILE.replace("\u2028", "") in page.text.replace("\u2028", "")
        assert HOSTILE in [arm["name"] for arm in chart(text)["arms"]]


def test_terminal_text_obeys_nobody():
    results = simulate(Plan(challengers=("mpich",), sizes=(8,), blocks=3))
    bad = fault(results, "mpich", [1], "job-failed", "\x1b[2J\x07")
    text = report_render.terminal_verdicts(compare(bad, FAST))
    assert all(line.isprintable() for line in text.splitlines())


def test_no_text_leaves_the_place_that_a_template_has_for_it(comparison):
    """Text, attributes of elements and of pictures, and the JSON inside a script."""
    name = "</script><!-- \" ' onload=alert(1) {{ 7 * 7 }}"
    spec = replace(comparison.spec, name=name, baseline=name)
    curves = [replace(panel.curve, placement=name) for panel in comparison.panels]
    panels = tuple(
        replace(panel, curve=curve) for panel, curve in zip(comparison.panels, curves, strict=True)
    )
    text = report_render.render_html(
        replace(comparison, spec=spec, panels=panels), curves=[reference(id=name, title=name)]
    )
    page = Page(text)
    assert name in page.text
    assert {value for _, key, value in page.attributes if key == "value"} >= {name}
    assert not [key for _, key, _ in page.attributes if key in {"onload", "'"}]
    inside = text.partition('id="chart-data">')[2].partition("</script>")[0]
    assert not set("<>&'") & set(inside)
    assert name in json.loads(inside)["panels"][0]["title"]


def test_templates_mark_nothing_as_safe_but_files_of_this_package():
    folder = importlib.resources.files("stackproof.report") / "templates"
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    safe = [line for text in texts.values() for line in text.splitlines() if "| safe" in line]
    assert len(texts) > 10
    assert len(safe) == 4
    assert all(
        re.fullmatch(r'<(script|style)>{{ "[a-z.]+" \| asset \| safe }}</\1>', s) for s in safe
    )
    assert not re.search("autoescape|Markup", "".join(texts.values()))


def test_tables_have_captions_and_every_row_its_cells(comparison):
    html = report_render.render_html(comparison)
    found = re.findall(r"<table.*?</table>", html, re.DOTALL)
    found = [one for one in found if 'class="strips"' not in one]
    assert len(found) > 20
    for one in found:
        assert re.search(r"<caption>[^<]+</caption>", one)
        columns = len(re.findall(r'<th scope="col">', one))
        for row in re.findall(r"<tr>(.*?)</tr>", one.split("<tbody>")[1], re.DOTALL):
            spans = sum(int(n) - 1 for n in re.findall(r'colspan="(\d+)"', row))
            assert len(re.findall(r"<t[dh][ >]", row)) + spans == columns


def test_verdict_table_has_the_six_sizes(comparison):
    assert tables.table_columns(comparison) == (
        "8 B", "1 KiB", "8 KiB", "64 KiB", "1 MiB", "4 MiB", "no size",
    )  # fmt: skip
    rows = tables.verdict_rows(comparison, "mpich", "inter-node")
    assert [row.label for row in rows] == ["latency", "bandwidth", "barrier"]
    assert [tables.cell_word(cell) for cell in rows[0].cells][:2] == ["0.67 FAIL"] * 2
    assert rows[0].cells[6] is None
    assert rows[2].cells[:6] == (None,) * 6


def test_the_short_text_begins_with_the_answer_and_leaves_out_what_decides_nothing(comparison):
    text = report_render.terminal_verdicts(comparison, brief=True)
    assert text.startswith("mpich against impi: FAIL\n  mpich: ")
    number = next(line for line in text.splitlines() if " against " in line and "(" in line)
    assert re.fullmatch(r"  latency .* B between nodes: 3\d % slower \(.* against .* µs\)", number)
    assert "Speed, where the baseline has 1" in text
    assert "the baseline once more) against" not in text
    assert "undecided:" not in text
    assert "note: " not in text
    assert "noise: impi against itself differs by " in " ".join(text.split())


def test_numbers_of_too_few_launches_are_in_the_long_text_alone():
    few = comparison_of(blocks=2, challengers=("mpich",), sizes=(8, 1024), slower={})
    text = " ".join(report_render.terminal_verdicts(few, brief=True).split())
    assert "The measuring ended early. " in text
    assert "are undecided because there are too few launches (a verdict needs 10 of each" in text
    assert "8 B" not in text
    assert "8 B" in report_render.terminal_verdicts(few)


def test_a_blank_stands_between_any_two_columns(comparison):
    slow = with_cells(comparison, lambda cell: unsure(size=cell.size, ratio=0.00016))
    assert "slow?0" not in report_render.terminal_verdicts(slow)


def test_no_number_of_launches_is_promised_where_others_disturb_them(comparison):
    results = simulate(Plan(challengers=("mpich",), sizes=(8, 1024)))
    ranks = (RankFacts(rank=0, host="a", disturbance=Disturbance(wall_s=1.0, other_load=0.5)),)
    busy = [replace(m, output=replace(m.output, ranks=ranks)) for m in results.measurements]
    made = compare(replace(results, measurements=tuple(busy)))
    assert made.is_disturbed
    assert {c.launches_needed for p in made.panels for j in p.judgements for c in j.cells} == {None}
    text = " ".join(report_render.terminal_verdicts(made, brief=True).split())
    assert "While they run, more launches will not help." in text
    assert "would decide" not in text
    assert describe_next(made, "results").startswith("when this machine is quiet, run the same ")
    early = replace(made, unfinished=True, spec=replace(made.spec, launches=40))
    assert describe_next(early, "r") == "stackproof bench --resume r --wait-for-quiet 30m"
    early = replace(made, unfinished=True, spec=replace(made.spec, launches=11))
    assert describe_next(early, "r").startswith("when this machine is quiet, run the same ")
    assert not comparison.is_disturbed
    page = Page(report_render.render_html(replace(made, unfinished=True))).text
    begin, _, _ = page.partition("Only what FAILs")
    assert begin.count("mpich against impi") == 2  # the title of the window and of the page
    assert "The measuring ended early. Other programs ran on the CPUs of the ranks in " in begin


def test_other_sizes_are_shown_when_the_six_were_not_measured():
    comparison = comparison_of(sizes=tuple(range(3, 60, 2)), benchmarks=("latency",), slower={})
    sizes = tables.table_sizes(comparison)
    assert sizes[0] == 3
    assert 4 <= len(sizes) <= 6
    few = comparison_of(sizes=(8, 4096, 1 << 20), benchmarks=("latency",), slower={})
    assert tables.table_sizes(few) == (8, 4096, 1 << 20)
    assert tables.table_sizes(comparison_of(benchmarks=("barrier",), slower={})) == ()
    assert report_render.render_html(comparison_of(benchmarks=("barrier",), slower={}))


def test_csv_holds_every_cell(comparison):
    rows = list(csv.DictReader(io.StringIO(report_render.render_csv(comparison))))
    cells = sum(len(j.cells) for panel in comparison.panels for j in panel.judgements)
    assert len(rows) == cells == 3 * 2 * (2 * len(SIZES) + 1)
    assert tuple(rows[0]) == tables.CSV_COLUMNS
    row = next(
        row
        for row in rows
        if (row["challenger"], row["benchmark"], row["size_bytes"], row["placement"])
        == ("mpich", "latency", "8", "inter-node")
    )
    assert row["verdict"] == "FAIL"
    assert float(row["baseline_median"]) / float(row["challenger_median"]) == pytest.approx(
        float(row["ratio"]),
        rel=0.02,  # the ratio is of pairs, not of medians
    )
    assert row["why"] == row["launches_needed"] == row["baseline_percent_of_limit"] == ""
    assert {row["null_arm"] for row in rows} == {"yes", "no"}


def test_text(comparison):
    text = report_render.render_markdown(comparison)
    assert "| inter-node | 8 B | 1 KiB |" in text
    assert "| latency | 0.67 FAIL |" in text
    assert text.startswith("# mpich and openmpi against impi: FAIL\n")
    text = report_render.terminal_verdicts(comparison)
    assert text.endswith("\nverdict: FAIL\n")
    assert "mpich against impi: FAIL\n" in text
    assert "0.67 FAIL" in text
    assert "impi again (the baseline once more) against impi: " in text
    flat = " ".join(text.split())
    assert "openmpi block 2 inter-node stackproof-bench: wrong-transport: validation: eth9" in flat
    assert "\x1b" not in text


def test_text_says_margins_and_launches_planned_and_there(comparison):
    for text in (
        report_render.terminal_verdicts(comparison),
        report_render.render_markdown(comparison),
    ):
        flat = " ".join(text.replace("\\", "").split())
        assert "margins: latency 10 %, bandwidth 5 %, collective 10 %" in flat
        assert "launches: 10 planned per arm and placement; every arm has them all" in flat
    # A launch that is left out takes its block with it: the other arms have one less too.
    exact = replace(comparison.spec, launches=11)
    text = report_render.terminal_verdicts(replace(comparison, spec=exact))
    flat = " ".join(text.split())
    assert "11 planned per arm and placement; where it has the fewest: impi 10, " in flat
    assert "all others have them all" not in flat


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_asked_for(width):
    slow = {"mpich": {("inter-node", "bandwidth"): dict.fromkeys(SIZES, 1.5)}}
    results = simulate(
        Plan(benchmarks=("latency", "bandwidth", "bibandwidth", "barrier"), slower=slow)
    )
    bad = fault(results, "openmpi", range(8), "wrong-transport", "eth9 sent 12,345 bytes, " * 30)
    lines = report_render.terminal_verdicts(compare(bad, FAST), width).splitlines()
    assert max(map(len, lines)) <= width
    columns = ["8 B", "1 KiB", "8 KiB", "64 KiB", "1 MiB", "4 MiB", "no size"]
    assert all(any(column in line for line in lines) for column in columns)


@pytest.mark.parametrize(
    ("changes", "slower"),
    [
        ({}, True),
        ({"why": Why.NOISE}, True),
        ({"why": Why.INTERVAL, "high": 0.97}, False),
        ({"why": Why.TOO_FEW}, False),
        ({"why": None, "verdict": Verdict.FAIL}, False),
        ({"high": None}, False),
    ],
)
def test_slower_and_not_proven_is_the_whole_interval_below_the_margin(changes, slower):
    cell = unsure(**changes)
    assert cell.seems_slower is slower
    word = "FAIL" if cell.verdict is Verdict.FAIL else "slow?" if slower else "?"
    assert tables.cell_word(cell) == f"0.68 {word}"


def test_every_output_says_why_a_cell_is_undecided_and_what_would_decide_it(comparison):
    needs = {8: 14, 1024: 30}
    made = with_cells(
        comparison, lambda cell: unsure(size=cell.size, launches_needed=needs.get(cell.size))
    )
    sentence = (
        "slow? 47 because below the margin, but not beyond chance among so many sizes (about 30 "
        "launches per arm would decide 4 of them): inter-node: latency, bandwidth, barrier"
    )
    assert sentence in " ".join(report_render.terminal_verdicts(made).split())
    assert sentence in report_render.render_markdown(made).replace("\\", "")
    row = next(
        row for row in csv.DictReader(io.StringIO(report_render.render_csv(made)))
        if (row["challenger"], row["placement"], row["size_bytes"]) == ("mpich", "inter-node", "8")
    )  # fmt: skip
    assert (row["why"], row["launches_needed"], row["launches_planned"]) == (
        "not-beyond-chance", "14", "10",
    )  # fmt: skip


def test_many_discarded_launches_are_cut_short_on_the_terminal():
    results = fault(simulate(Plan(blocks=13, sizes=(8,))), "openmpi", range(14), "job-failed", "")
    text = report_render.terminal_verdicts(compare(results, FAST))
    assert "discarded: 28" in text
    assert "  and 8 more" in text


def test_a_noisy_machine_is_said_aloud():
    slow = {("inter-node", "latency"): dict.fromkeys(SIZES, 1.5)}
    comparison = comparison_of(slower={"impi again": slow})
    assert "Warning: the null arm FAILS" in Page(
        report_render.render_html(comparison)
    ).text.replace("Warning:  ", "Warning: ")
    assert "warning: the null arm FAILS" in report_render.terminal_verdicts(comparison)


def test_reference_curves_go_to_the_panels_they_fit(comparison):
    curves = (
        reference(),
        reference(id="intra", locality=Locality.INTRA),
        reference(id="bandwidth", benchmark="bandwidth", unit="MB/s"),
        reference(id="alltoall", benchmark="alltoall"),
    )
    html = report_render.render_html(comparison, curves=curves, overlay=("intra",))
    data = chart(html)
    shown = {panel["title"]: [r["id"] for r in panel["references"]] for panel in data["panels"]}
    assert shown["latency, inter-node"] == ["alps-inter-latency"]
    assert shown["latency, intra-node"] == ["intra"]
    assert shown["bandwidth, inter-node"] == ["bandwidth"]
    assert data["overlay"] == ["intra"]
    page = Page(html)
    boxes = [value for tag, key, value in page.attributes if (tag, key) == ("input", "value")]
    assert boxes == ["alps-inter-latency", "intra", "bandwidth"]
    assert "machine alps-gh200" in page.text
    assert data["panels"][0]["references"][0]["points"] == [[1, 2.5]]


def test_an_unknown_overlay_is_refused(comparison):
    with pytest.raises(StackproofError) as caught:
        report_render.render_html(comparison, curves=(reference(),), overlay=("x", "y"))
    assert caught.value.reason is Reason.INVALID_VALUE
    assert len(caught.value.problems) == 2


def test_differences_stand_side_by_side(comparison):
    html = report_render.render_html(comparison)
    (table,) = re.findall(r"<caption>Settings that differ</caption>.*?</table>", html, re.DOTALL)
    assert ">environment MPICH_SETTING</th>" in table
    assert "FI_PROVIDER" not in table  # differs between placements, not between arms
    (same,) = re.findall(
        r"<caption>Settings that are the same</caption>.*?</table>", html, re.DOTALL
    )
    assert "environment FI_PROVIDER (inter-node, stackproof-bench)" in same


def test_missing_facts_do_not_stop_a_report():
    results = simulate(Plan(challengers=("mpich",), sizes=(8, 1024), blocks=3, null=None))
    bare = replace(
        results,
        spec=replace(
            results.spec, arms={}, host={}, limits={}, command=(), versions={}, created=""
        ),
        measurements=tuple(
            replace(m, checks=(), env={}, output=replace(m.output, ranks=(), clock={}))
            for m in results.measurements
            if not (m.arm == "mpich" and m.case.placement.name == "inter-node" and m.block != 1)
        ),
    )
    comparison = compare(bare, FAST)
    page = Page(report_render.render_html(comparison))
    assert "No null arm was measured." in page.text
    assert "No check was recorded." in page.text
    assert "stackproof bench SPEC" in page.text
    assert report_render.terminal_verdicts(comparison)
    assert report_render.render_csv(comparison)


def test_each_rank_has_its_core_numa_node_nic_and_gpu():
    results = simulate(Plan(challengers=("mpich",), sizes=(8,), blocks=3, null=None))
    ranks = tuple(
        Rank(node=node, cpu=9 + n, numa=1, nic=f"cxi{n}", gpu=n + 4)
        for n, node in enumerate(("n0", "n1"))
    )
    place = replace(INTER, name="2x1-by-gpu", gpus="rocm", ranks=ranks)

    def placed(one):
        said = tuple(
            RankFacts(
                rank=n, host=rank.node, cpu=rank.cpu, cpus=(rank.cpu,), numa=1,
                devices={"HIP_VISIBLE_DEVICES": str(rank.gpu), "FI_CXI_DEVICE_NAME": rank.nic},
            )
            for n, rank in enumerate(ranks)
        )  # fmt: skip
        case = replace(one.case, placement=place)
        return replace(one, case=case, output=replace(one.output, ranks=said))

    inter = [placed(m) for m in results.measurements if m.case.placement.name == "inter-node"]
    comparison = compare(replace(results, measurements=tuple(inter)), FAST)
    html = report_render.render_html(comparison)
    (table,) = re.findall(
        r"<caption>Where each rank said that it was</caption>.*?</table>", html, re.DOTALL
    )
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", table)
    at = cells.index("n1")
    assert cells[at : at + 7] == ["n1", "10", "10", "1", "cxi1", "5", "node, core, NUMA, NIC, GPU"]
    data = json.loads(report_render.render_json(comparison))
    rank = data["launches"][0]["ranks"][1]
    assert (rank["cpu"], rank["numa"], rank["nic"], rank["gpu"]) == (10, 1, "cxi1", 5)
    assert rank["verified"] == ["node", "core", "NUMA", "NIC", "GPU"]
    assert rank["wrong"] == []


# --- paths of the messages -----------------------------------------------------------------------


def probe(arm, comparison):
    library = "/mpi/libmpi.so.40"
    segments = ("/dev/shm/sm_segment.1", "/dev/shm/sm_segment.2")
    return MessagePaths(
        arm=arm, placement=INTER, transport="tcp", family="openmpi", version="5.0.11",
        launcher="prte", identity="x", started=comparison.spec.created, seconds=0.7,
        settings={"OMPI_MCA_pml_base_verbose": "10"},
        statements=(
            Statement(topic=Topic.PROVIDER, value="tcp", rank=0, quote="mtl:ofi:provider: tcp"),
        ),
        ranks=(
            RankFacts(rank=0, host="n0", cpus=(3,), libraries=(library,), shared=segments,
                      build_ids={library: "0badcafe"}),
            RankFacts(rank=1, host="n1", libraries=(library,)),
        ),
        routes=(
            Route(locality=Locality.INTER, pairs=((0, 1),), carrier="`cm` with libfabric's `tcp`",
                  state=State.OK, evidence="TCP: sent 5 MB"),
        ),
    )  # fmt: skip


def test_paths_are_shown_with_what_was_said(comparison):
    bad = Route(
        locality=Locality.INTER, pairs=tuple((0, peer) for peer in range(1, 9)), carrier="`ob1`",
        state=State.BAD, evidence=HOSTILE, reason="wrong-transport",
    )  # fmt: skip
    paths = (
        probe("mpich", comparison),
        replace(probe("openmpi", comparison), routes=(bad,), quiet="it hung"),
        replace(probe("impi", comparison), statements=(), ranks=(), settings={}),
    )
    text = report_render.render_html(replace(comparison, paths=paths))
    page = Page(text)
    for said in ("mtl:ofi:provider: tcp", "0badcafe", "sm_segmen… (2)", "(8 pairs)", "it hung",
                 "The MPI said nothing of its path."):  # fmt: skip
        assert said in page.text
    assert "<script>alert" not in text
    assert "probes" in page.ids
    assert "probes" not in Page(report_render.render_html(comparison)).ids
