"""Outputs of others become results: what is said, what is refused."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from refusals import refusal
from stackproof.bench.import_outputs import Imported, OutputFile, import_outputs
from stackproof.bench.import_places import ImportSetup
from stackproof.compare.compare import compare
from stackproof.compare.model import Verdict
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.knowledge.effects.load import load_curves
from stackproof.knowledge.reference_curves import BufferPlace, ReferenceCurve
from stackproof.report.render import render_html, render_markdown, render_paths_csv
from stackproof.results.case import Locality
from stackproof.results.measurement import State
from stackproof.results.model import Results
from synthetic import Plan, simulate

SETUP = ImportSetup(name="theirs", locality=Locality.INTER, memory=BufferPlace.HOST)
HEAD = "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n"


def rows(factor: float, upto: int = 23, mark: str = "") -> str:
    return "".join(f"{2**k:<10}{factor * 2**k:>20.2f}{mark}\n" for k in range(upto))


def imported(
    *files: tuple[str, str], setup: ImportSetup = SETUP, before: Results | None = None
) -> Imported:
    outputs = [OutputFile(arm=arm, name=f"{arm}.txt", text=text) for arm, text in files]
    return import_outputs(outputs, setup, before)


def refused(
    *files: tuple[str, str], setup: ImportSetup = SETUP, before: Results | None = None
) -> StackproofError:
    return refusal(imported, *files, setup=setup, before=before)


def test_each_table_is_a_launch_in_the_order_of_the_file() -> None:
    found = imported(("vendor", (HEAD + rows(2.0)) * 2), ("ours", (HEAD + rows(1.9)) * 2))
    measured = found.results.measurements
    assert [(m.arm, m.block, m.order) for m in measured] == [
        ("vendor", 1, 1), ("vendor", 2, 2), ("ours", 1, 3), ("ours", 2, 4),
    ]  # fmt: skip
    assert measured[0].output.series[3].values == (16.0,)
    assert measured[0].case.placement.name == "inter-node"
    assert found.results.spec.challengers == ("ours",)
    assert all(m.usable for m in measured)


def test_imported_launches_are_compared() -> None:
    found = imported(("vendor", (HEAD + rows(2.0)) * 12), ("ours", (HEAD + rows(2.0)) * 12))
    assert compare(found.results).verdict is Verdict.PASS
    slower = imported(("vendor", (HEAD + rows(2.0)) * 12), ("ours", (HEAD + rows(1.0)) * 12))
    assert compare(slower.results).verdict is Verdict.FAIL


def test_one_arm_alone_has_a_report_without_a_verdict() -> None:
    comparison = compare(imported(("theirs", HEAD + rows(2.0))).results)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.verdicts == ()
    assert len(comparison.panels) == 1
    assert [note.level for note in comparison.notes if "only one arm" in note.text] == ["warning"]
    assert "INCONCLUSIVE" in render_markdown(comparison)
    assert "theirs" in render_html(comparison)


def test_device_memory_is_another_placement() -> None:
    setup = ImportSetup(name="x", locality=Locality.INTRA, memory=BufferPlace.DEVICE)
    text = HEAD.replace("MPI Bandwidth", "MPI-CUDA Bandwidth") + rows(2.0)
    (one,) = imported(("a", text), setup=setup).results.measurements
    assert (one.case.placement.name, one.host_facts["memory"]) == ("intra-node-device", "device")
    assert one.case.placement.locality is Locality.INTRA
    error = refused(("a", HEAD + rows(2.0)), setup=setup)
    assert error.reason is Reason.INVALID_VALUE


def test_a_heading_that_contradicts_is_refused() -> None:
    buffers = "# Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n# Size"
    error = refused(("a", HEAD.replace("# Size", buffers) + rows(2.0)))
    assert error.reason is Reason.INVALID_VALUE


def test_a_file_without_tables_is_named() -> None:
    error = refused(("a", "nothing\n"), ("b", HEAD + rows(1.0)))
    assert error.reason is Reason.NO_RESULTS
    assert error.problems[0].where.file == "a.txt"


def test_nothing_usable_is_an_error_that_says_why() -> None:
    failed = (HEAD + rows(2.0, mark="              Fail")).replace(
        "(MB/s)\n", "(MB/s)  Validation\n"
    )
    error = refused(("a", failed))
    assert error.reason is Reason.VALIDATION_FAILED
    assert "Fail" in error.problems[0].detail


def test_a_table_that_may_be_cut_stays_and_says_so() -> None:
    found = imported(("a", HEAD + rows(2.0, upto=10)))
    (one,) = found.results.measurements
    check = next(check for check in one.checks if check.name == "output")
    assert (check.state, one.usable) == (State.UNKNOWN, True)
    assert any("may have been cut" in note for note in found.notes)


def test_validated_rows_say_so() -> None:
    text = (HEAD + rows(2.0, mark="              Pass")).replace("(MB/s)\n", "(MB/s)  Validation\n")
    (one,) = imported(("a", text)).results.measurements
    assert next(c.state for c in one.checks if c.name == "validation") is State.OK
    assert one.output.series[4].validated == 16


def test_a_baseline_must_be_an_arm() -> None:
    setup = ImportSetup(name="x", locality=Locality.INTER, memory=BufferPlace.HOST, baseline="none")
    assert refused(("a", HEAD + rows(2.0)), setup=setup).reason is Reason.USAGE


# --- several paths --------------------------------------------------------------------------


def on(transport: str, locality: Locality = Locality.INTER, **more: object) -> ImportSetup:
    return replace(SETUP, transport=transport, locality=locality, **more)  # type: ignore[arg-type]


def joined(*parts: tuple[str, str, ImportSetup]) -> Results:
    """Return the results of several imports, each (arm, text, setup)."""
    results: Results | None = None
    for arm, text, setup in parts:
        results = imported((arm, text), setup=setup, before=results).results
    assert results is not None
    return results


def test_arms_of_several_imports_are_compared_by_path() -> None:
    results = joined(
        ("vendor", HEAD + rows(2.0), on("cxi")),
        ("openmpi-lnx", HEAD + rows(1.9), on("lnx")),
        ("openmpi-shm", HEAD + rows(3.0), on("shm", Locality.INTRA)),
        ("vendor", HEAD + rows(2.9), on("shm", Locality.INTRA)),
    )
    comparison = compare(results)
    assert [(p.curve.placement, p.transport("vendor")) for p in comparison.panels] == [
        ("inter-node", "cxi"), ("intra-node", "shm"),
    ]  # fmt: skip
    assert comparison.spec.challengers == ("openmpi-lnx", "openmpi-shm")
    assert comparison.spec.arms["vendor"].transport == "inter-node: cxi, intra-node: shm"
    assert "too few launches" in comparison.rankings[0].sentence
    assert 'id="transports"' in render_html(comparison)


def test_further_tables_of_an_arm_are_further_launches() -> None:
    text = HEAD + rows(2.0)
    results = imported(("a", text), ("b", text), setup=on("tcp")).results
    for step in range(1, 6):
        more = [(arm, HEAD + rows(more + step / 10)) for arm, more in (("a", 2.0), ("b", 2.1))]
        results = imported(*more, setup=on("tcp"), before=results).results
    assert [(m.arm, m.block) for m in results.measurements if m.arm == "b"] == [
        ("b", block) for block in range(1, 7)
    ]
    assert results.spec.launches == 6
    (panel,) = compare(results).panels
    assert {cell.blocks for judgement in panel.judgements for cell in judgement.cells} == {6}


def test_what_is_there_already_or_by_another_path_is_refused() -> None:
    before = joined(("a", HEAD + rows(2.0), on("tcp")), ("b", HEAD + rows(2.0), on("tcp")))
    for text, setup in ((HEAD + rows(2.0), on("tcp")), (HEAD + rows(3.0), on("lnx"))):
        error = refused(("a", text), ("b", text), setup=setup, before=before)
        assert [p.reason for p in error.problems] == [Reason.INVALID_VALUE] * 2
        assert error.problems[0].where.file == "a.txt, line 1"


def test_only_what_was_imported_is_added_to() -> None:
    table, none = ("b", HEAD + rows(2.0)), replace(SETUP, baseline="none")
    more = imported(("a", HEAD + rows(2.0))).results
    ours = simulate(Plan(blocks=1, sizes=(8,)))
    assert refused(table, before=ours).reason is Reason.USAGE
    assert refused(table, setup=none, before=more).reason is Reason.USAGE
    fast = imported(("x", HEAD + rows(2.0)), setup=on("auto", fabric="slingshot-11")).results
    slow = on("auto", fabric="ethernet", baseline="b")
    assert refused(table, setup=slow, before=fast).reason is Reason.INVALID_VALUE
    assert imported(table, setup=slow, before=more).results.spec.challengers == ("a",)


ALLTOALL = (
    "# OSU MPI All-to-All Personalized Exchange Latency Test v7.5\n# Datatype: MPI_CHAR.\n"
    "# Size       Avg Latency(us)\n"
)


def test_numbers_of_ranks_are_placements_of_their_own() -> None:
    results = joined(
        *(
            (arm, ALLTOALL + rows(factor * nodes), on(path, ranks=8 * nodes, nodes=nodes))
            for nodes in (4, 16, 64)
            for arm, path, factor in (("vendor", "cxi", 1.0), ("ours", "lnx", 1.1))
        )
    )
    panels = compare(results).panels
    assert [(p.curve.placement, p.curve.ranks, p.curve.nodes) for p in panels] == [
        ("4x8", 32, 4), ("16x8", 128, 16), ("64x8", 512, 64),
    ]  # fmt: skip
    html = render_html(compare(results))
    assert "Over ranks" in html
    assert "16x8: 128 ranks on 16 nodes" in html


@pytest.mark.parametrize(
    ("locality", "ranks", "nodes"),
    [
        (Locality.INTER, 64, None), (Locality.INTER, 64, 1), (Locality.INTRA, 8, 2),
        (Locality.INTER, 9, 2), (Locality.INTER, 2, 4), (Locality.INTRA, 2, 0),
    ],
)  # fmt: skip
def test_ranks_that_cannot_be_so(locality: Locality, ranks: int, nodes: int | None) -> None:
    error = refused(("a", HEAD + rows(2.0)), setup=on("auto", locality, ranks=ranks, nodes=nodes))
    assert error.reason is Reason.USAGE


# --- published comparisons ------------------------------------------------------------------


def as_osu(curve: ReferenceCurve) -> str:
    """Return a published curve as the output it was copied from."""
    title, column = {
        "bandwidth": ("Bandwidth", "Bandwidth (MB/s)"),
        "bibandwidth": ("Bi-Directional Bandwidth", "Bandwidth (MB/s)"),
        "latency": ("Latency", "Avg Latency(us)"),
    }[curve.benchmark]
    kind = "MPI-CUDA" if curve.memory is BufferPlace.DEVICE else "MPI"
    head = f"# OSU {kind} {title} Test v7.5\n# Datatype: MPI_CHAR.\n# Size  {column}\n"
    return head + "".join(f"{p.size:<10}{p.printed:>20}\n" for p in curve.points)


CURVES = {curve.id: curve for curve in load_curves()}
PUBLISHED = [
    ("olivia-gh200-cray-mpich-9-1-inter-device-bibandwidth",
     "olivia-gh200-openmpi-2026-inter-device-bibandwidth"),
    ("olivia-gh200-cray-mpich-9-1-inter-device-latency",
     "olivia-gh200-openmpi-2026-inter-device-latency"),
    ("alps-gh200-openmpi-without-cxi-inter-host-bandwidth",
     "alps-gh200-openmpi-cxi-inter-host-bandwidth"),
    ("alps-gh200-openmpi-without-cxi-inter-device-bandwidth",
     "alps-gh200-openmpi-cxi-inter-device-bandwidth"),
]  # fmt: skip


@pytest.mark.parametrize(("vendor", "ours"), PUBLISHED)
def test_published_tables_give_the_ratios_of_their_printed_values(vendor: str, ours: str) -> None:
    """Challenger over vendor, as plots of the field have it, to five digits at every size."""
    base, other = CURVES[vendor], CURVES[ours]
    setup = on("cxi", base.locality, memory=base.memory)
    results = joined(
        ("vendor", as_osu(base), setup), ("ours", as_osu(other), replace(setup, transport="lnx"))
    )
    rows_found = list(csv.DictReader(io.StringIO(render_paths_csv(compare(results)))))
    found = {int(row["size_bytes"]): row for row in rows_found if row["arm"] == "ours"}
    bottom = {point.size: point for point in base.points}
    assert len(found) == len(other.points) > 20
    for point in other.points:
        row, below = found[point.size], bottom[point.size]
        exact = Decimal(point.printed) / Decimal(below.printed)
        turned = exact if base.benchmark != "latency" else 1 / exact
        assert float(row["quotient"]) == pytest.approx(float(exact), rel=1e-5, abs=0)
        assert float(row["ratio"]) == pytest.approx(float(turned), rel=1e-5, abs=0)
        assert float(row["median"]) == pytest.approx(float(point.printed), rel=1e-5, abs=0)


@pytest.mark.parametrize(
    "crash",
    [
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 139\n",
        "srun: error: n1: task 3: Segmentation fault (core dumped)\n",
        "nid001: rank 3 died from signal 11 and dumped core\n",
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 1 DUE TO TIME LIMIT ***\n",
        "job.sh: line 4: 4711 Segmentation fault (core dumped) ./osu_bw\n",
        "mpirun noticed that process rank 1 with PID 0 on node n exited on signal 11 (Segm).\n",
    ],
)
def test_a_table_that_ends_in_a_crash_is_no_launch(crash: str) -> None:
    whole = HEAD + rows(2.0)
    found = imported(("a", f"{whole}{HEAD}{rows(2.0, upto=9)}{crash}{whole}"))
    assert [one.usable for one in found.results.measurements] == [True, False, True]
    assert any("does not count: behind it" in note for note in found.notes), found.notes
    error = refused(("a", f"{whole}{crash}"))
    assert "does not count: behind it" in error.problems[0].detail


def test_a_table_of_imb_that_is_cut_says_so() -> None:
    head = "# Benchmarking PingPong \n# #processes = 2 \n#-----\n"
    head += "       #bytes #repetitions      t[usec]   Mbytes/sec\n"
    text = head + "".join(f"{2**k:>13}{1000:>13}{1.0:>13.2f}{1.0:>13.2f}\n" for k in range(9))
    for end, cut in (("", True), ("\n\n# All processes entering MPI_Finalize\n", False)):
        notes = imported(("a", text + end)).notes
        assert any("nothing follows the size 256" in note for note in notes) == cut, notes
