"""Outputs of others become results: what is said, what is refused."""

from __future__ import annotations

import pytest

from stackproof.case import Locality
from stackproof.compare import compare
from stackproof.comparison import Verdict
from stackproof.curves import Memory
from stackproof.errors import Reason, StackproofError
from stackproof.importing import Imported, OutputFile, Setup, import_outputs
from stackproof.measurement import State
from stackproof.report import render_html, render_markdown

SETUP = Setup(name="theirs", locality=Locality.INTER, memory=Memory.HOST)
HEAD = "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n"


def rows(factor: float, upto: int = 23, mark: str = "") -> str:
    return "".join(f"{2**k:<10}{factor * 2**k:>20.2f}{mark}\n" for k in range(upto))


def imported(*files: tuple[str, str], setup: Setup = SETUP) -> Imported:
    return import_outputs(
        [OutputFile(arm=arm, name=f"{arm}.txt", text=text) for arm, text in files], setup
    )


def refused(*files: tuple[str, str], setup: Setup = SETUP) -> StackproofError:
    with pytest.raises(StackproofError) as caught:
        imported(*files, setup=setup)
    return caught.value


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
    setup = Setup(name="x", locality=Locality.INTRA, memory=Memory.DEVICE)
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
    assert error.reason is Reason.NO_RESULTS
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
    setup = Setup(name="x", locality=Locality.INTER, memory=Memory.HOST, baseline="none")
    assert refused(("a", HEAD + rows(2.0)), setup=setup).reason is Reason.USAGE
