"""OSU's tables of all releases: a row is right, or it is rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.bench.programs import osu, tables
from stackproof.bench.programs.osu import OSU_TESTS, OsuTest
from stackproof.bench.programs.tables import PrintedTable
from stackproof.core.errors import Reason
from stackproof.knowledge.effects.load import load_curves
from stackproof.results.metrics import METRICS

TITLES = {
    "latency": "OSU MPI{tag} Latency Test",
    "bandwidth": "OSU MPI{tag} Bandwidth Test",
    "bibandwidth": "OSU MPI{tag} Bi-Directional Bandwidth Test",
    "alltoall": "OSU MPI{tag} All-to-All Personalized Exchange Latency Test",
}
# What each release prints between title and rows, and how wide its columns are.
RELEASES = {
    "5.9": (" v5.9", ("# Size{column}",), 18),
    "7.1": (" v7.1", ("# Size{column}", "# Datatype: MPI_CHAR."), 18),
    "7.3": (
        " v7.3",
        (
            "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)",
            "# Size{column}",
            "# Datatype: MPI_CHAR.",
        ),
        20,
    ),
    "7.5": (" v7.5", ("# Datatype: MPI_CHAR.", "# Size{column}"), 20),
}
COLUMNS = {"latency": "Avg Latency(us)", "alltoall": "Avg Latency(us)"}


def written(
    benchmark: str, rows: list[tuple[int, str]], *, release: str = "7.5", tag: str = ""
) -> str:
    version, heading, width = RELEASES[release]
    column = COLUMNS.get(benchmark, "Bandwidth (MB/s)")
    if release != "7.5" and benchmark == "latency":
        column = "Latency (us)"
    lines = ["", f"# {TITLES[benchmark].format(tag=tag)}{version}"]
    lines += [line.format(column=f"{column:>{width}}") for line in heading]
    lines += [f"{size:<10}{value:>{width}}" for size, value in rows]
    return "\n".join(lines) + "\n"


def only(text: str) -> PrintedTable:
    (table,) = tables.read(text).tables
    return table


def rows_of(table: PrintedTable) -> list[tuple[int, str]]:
    ((_, column),) = osu.metrics_of(table)
    return [(row.size, row.printed[column]) for row in table.rows]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "curve", [c for c in load_curves() if c.tool.startswith("osu")], ids=lambda c: c.id
)
def test_published_tables_are_read_back_to_the_digit(curve, release: str) -> None:
    points = [(point.size, point.printed) for point in curve.points]
    table = only(written(curve.benchmark, points, release=release, tag="-CUDA"))
    assert (table.reason, table.faults) == ("", ())
    assert rows_of(table) == points
    assert osu.metrics_of(table)[0][0] == curve.benchmark
    assert table.accelerator == "CUDA"
    assert table.version == release


VARIANTS = {
    "validated": """
# OSU MPI-CUDA Latency Test v7.5
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)        Validation
8                       2.40              Pass
16                      2.41              Pass
""",
    "percentiles": """
# OSU MPI Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)    P50 Tail Lat(us)    P99 Tail Lat(us)
1                       1.70                1.68                2.50
2                       1.71                1.69                2.51
""",
    "full": """
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_INT.
# Size       Avg Latency(us)     Min Latency(us)     Max Latency(us)  Iterations
4                       3.20                3.00                3.50        1000
8                       3.21                3.01                3.51        1000
""",
    "non-blocking": """
# OSU MPI Non-blocking Allreduce Latency Test v7.5
# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait

# Datatype: MPI_INT.
# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)
4                       9.10              4.50              4.40             -0.00
8                       9.20              4.60               nan              0.00
""",
    "one-sided": """
# OSU MPI_Put Latency Test v7.4
# Window creation: MPI_Win_allocate
# Synchronization: MPI_Win_flush
# Datatype: MPI_CHAR.
# Size          Latency (us)
8                       2.10
16                      2.11
""",
    "message-rate": """
# OSU MPI Multiple Bandwidth / Message Rate Test v7.4
# [ pairs: 2 ] [ window size: 64 ]
# Datatype: MPI_CHAR.
# Size                  MB/s        Messages/s
1                       4.10        4100000.00
2                       8.20        4100000.00
""",
    "barrier": """
# OSU MPI Barrier Latency Test v7.4
# Avg Latency(us)
             2.85
""",
}
EXPECTED = {
    "validated": ("latency", [(8, 2.40), (16, 2.41)], {"datatype": "MPI_CHAR"}),
    "percentiles": ("latency", [(1, 1.70), (2, 1.71)], {"datatype": "MPI_CHAR"}),
    "full": ("allreduce", [(4, 3.20), (8, 3.21)], {"datatype": "MPI_INT"}),
    "message-rate": (
        "message_rate",
        [(1, 4.1e6), (2, 4.1e6)],
        {"pairs": "2", "window": "64", "datatype": "MPI_CHAR"},
    ),
    "barrier": ("barrier", [(0, 2.85)], {}),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_kind_of_table_is_read(name: str) -> None:
    table = only(VARIANTS[name])
    benchmark, rows, facts = EXPECTED[name]
    ((metric, column),) = osu.metrics_of(table)
    assert metric == benchmark
    assert [(row.size, row.values[column]) for row in table.rows] == rows
    assert (table.facts, table.faults, table.reason) == (facts, (), "")


def test_tables_of_other_forms_are_read_too() -> None:
    put = only(VARIANTS["one-sided"])
    assert osu.metrics_of(put) == (("put_latency", "Latency (us)"),)
    assert put.facts["window"] == "MPI_Win_allocate"
    assert [row.values["Latency (us)"] for row in put.rows] == [2.10, 2.11]
    blocking = only(VARIANTS["non-blocking"])
    assert blocking.rows[0].printed["Overlap(%)"] == "-0.00"
    assert blocking.rows[1].values["Pure Comm.(us)"] is None


def test_a_failed_validation_spoils_the_whole_table() -> None:
    text = VARIANTS["validated"].replace("2.41              Pass", "2.41              Fail")
    assert only(text).reason == Reason.VALIDATION_FAILED
    error = "DATA VALIDATION ERROR: ./osu_latency exited with status 1 on message size 32.\n"
    assert only(VARIANTS["validated"] + error).reason == Reason.VALIDATION_FAILED


def test_singletons_are_told() -> None:
    title = "# OSU MPI Bandwidth Test v7.5\n"
    reading = tables.read(title * 2 + written("bandwidth", [(1, "1.00")]).split("\n", 2)[2])
    assert {table.reason for table in reading.tables} == {Reason.NO_RESULTS, Reason.SINGLETONS}
    alone = "This test requires exactly two processes\n"
    (table,) = tables.read(title + alone * 2).tables
    assert table.reason == Reason.SINGLETONS
    whole = written("latency", [(1, "1.00"), (2, "2.00")])
    assert tables.read(f"{title}{alone * 2}{whole}a note\n").tables[-1].reason == ""


def test_two_runs_in_one_table_are_refused() -> None:
    rows = [(1, "1.00"), (1, "1.10"), (2, "2.00"), (2, "2.10")]
    assert only(written("bandwidth", rows)).reason == Reason.GARBAGE_OUTPUT


def test_a_heading_that_does_not_fit_the_rows_rejects_them() -> None:
    text = VARIANTS["full"].replace("  Iterations", "")
    table = only(text)
    assert table.reason == Reason.NO_RESULTS
    assert len(table.faults) == 2


@pytest.mark.parametrize("value", ["1,234.56", "1.234,56", "12,5", "1.2", "1.234", "1e3"])
def test_numbers_as_the_program_does_not_print_them_are_rejected(value: str) -> None:
    table = only(written("bandwidth", [(1, "1.00"), (2, "2.00"), (4, value)]))
    assert [size for size, _ in rows_of(table)] == [1, 2]
    assert len(table.faults) == 1


def test_labels_colours_and_noise_do_not_hurt() -> None:
    points = [(1, "1.00"), (2, "2.00"), (4, "4.00")]
    lines = written("bandwidth", points).splitlines()
    noisy = ["libfoo.so: no version information available"]
    for line in lines:
        noisy += [f"0: \x1b[32m{line}\x1b[0m", "1: PE 1: MPICH environment settings", "8 cores"]
    table = only("\n".join(noisy))
    assert (table.reason, table.faults) == ("", ())
    assert rows_of(table) == points


@pytest.mark.parametrize("indent", ["    ", "\t", "        "])
def test_indented_copies_are_read(indent: str) -> None:
    points = [(1, "1.00"), (2, "2.00")]
    for release in RELEASES:
        lines = [
            f"{indent}{line}" for line in written("bandwidth", points, release=release).splitlines()
        ]
        assert rows_of(only("\n".join(lines))) == points


def test_warnings_between_heading_and_rows_do_not_hurt() -> None:
    text = written("alltoall", [(1, "22.07"), (2, "21.89")], release="7.1", tag="-CUDA")
    lines = text.splitlines()
    lines.insert(3, " coll_ucc_barrier.c:31 - mca_coll_ucc_barrier() running ucc barrier")
    lines.insert(5, "libnl-3.so.200: no version information available (required by libcxi.so.1)")
    assert rows_of(only("\n".join(lines))) == [(1, "22.07"), (2, "21.89")]


def test_rows_of_another_rank_do_not_count() -> None:
    lines = [f"0: {line}" for line in written("bandwidth", [(1, "1.00")]).splitlines()]
    table = only("\n".join([*lines, "1: 2                       9.99"]))
    assert rows_of(table) == [(1, "1.00")]


def test_a_table_of_a_lost_title_is_not_taken_for_the_one_before() -> None:
    first = written("latency", [(1, "1.00"), (2, "1.10")])
    second = written("alltoall", [(4, "9.00"), (8, "9.10")]).replace("# OSU", "# lost OSU")
    (table,) = tables.read(first + second).tables
    assert rows_of(table) == [(1, "1.00"), (2, "1.10")]


def test_where_a_table_may_have_been_cut() -> None:
    assert "4194304" in osu.may_be_cut(only(written("bandwidth", [(1, "1.00")])))
    assert osu.may_be_cut(only(written("bandwidth", [(4 << 20, "1.00")]))) == ""


TRUTH = {
    (benchmark, size, value)
    for benchmark, rows in {
        "latency": [(2**k, f"{1.5 + k:.2f}") for k in range(12)],
        "bandwidth": [(2**k, f"{3 * 2.0**k:.2f}") for k in range(12)],
    }.items()
    for size, value in rows
}
LINES = "".join(
    written(name, sorted((s, v) for b, s, v in TRUTH if b == name))
    for name in ("latency", "bandwidth")
).splitlines()
NOISE = (
    "srun: error: node7: task 1: Aborted", "8 cores", "", "1:", "[node1:4711] *** warning",
    "# a comment", "12.50", "0.00 0.00", "4", "# Datatype: MPI_INT.", "slurmstepd: 128  1024",
)  # fmt: skip


def readings(text: str) -> set[tuple[str, int, str]]:
    return {
        (metric, row.size, row.printed[column])
        for table in tables.read(text).tables
        if not table.reason
        for metric, column in osu.metrics_of(table)
        for row in table.rows
    }


def test_the_whole_text_gives_the_truth() -> None:
    assert readings("\n".join(LINES)) == TRUTH


@pytest.mark.parametrize("width", range(1, len(LINES)))
def test_two_lines_lost_never_give_a_wrong_number(width: int) -> None:
    for first in range(len(LINES) - width):
        lines = [line for at, line in enumerate(LINES) if at not in {first, first + width}]
        assert readings("\n".join(lines)) <= TRUTH


@given(st.sets(st.integers(0, len(LINES) - 1), max_size=6))
def test_lost_lines_never_give_a_wrong_number(lost: set[int]) -> None:
    kept = [line for number, line in enumerate(LINES) if number not in lost]
    assert readings("\n".join(kept)) <= TRUTH


@given(st.lists(st.tuples(st.integers(0, len(LINES)), st.sampled_from(NOISE)), max_size=8))
def test_noise_in_between_never_gives_a_wrong_number(noise: list[tuple[int, str]]) -> None:
    lines = list(LINES)
    for place, text in sorted(noise, reverse=True):
        lines.insert(place, text)
    assert readings("\n".join(lines)) <= TRUTH


@given(st.integers(0, len("\n".join(LINES)) - 1), st.sampled_from(["", "#", "x", "\n", "."]))
def test_a_changed_character_never_gives_a_wrong_number(place: int, character: str) -> None:
    text = "\n".join(LINES)
    if character and text[place] in "0123456789":
        character = ""  # another digit is another number, and nothing in the file says so
    assert readings(text[:place] + character + text[place + 1 :]) <= TRUTH


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert readings(text) == set()


@pytest.mark.parametrize("test", OSU_TESTS.values(), ids=lambda test: test.program)
def test_the_table_of_each_program_is_told_by_its_title(test: OsuTest) -> None:
    column = osu.VALUE_COLUMNS[METRICS[test.benchmark].kind][0]
    sized = "" if "barrier" in test.benchmark else "Size  "
    row = f"{'8  ' if sized else ''}12.50\n"
    for mark in ("#", "\\#"):
        table = only(f"{mark} OSU {test.title} Test v7.5\n{mark} {sized}{column}\n{row}")
        assert osu.metrics_of(table) == ((test.benchmark, column),)
        assert [values.values[column] for values in table.rows] == [12.5]


@pytest.mark.parametrize(
    ("title", "benchmark"),
    [
        ("MPI Alltoall Latency", "alltoall"),
        ("MPI Bcast Latency", "bcast"),
        ("MPI Latency Test", "latency"),
        ("MPI Multi Latency Test", "multi_lat"),
        ("MPI-CUDA All-to-Allv Personalized Exchange Latency", "alltoallv"),
        ("MPI Non-blocking All-to-Allv Personalized Exchange Latency", "ialltoallv"),
        ("MPI Non-Blocking Broadcast Latency", "ibcast"),
        ("MPI Neighbor Alltoall Latency", "neighbor_alltoall"),
        ("MPI Non-blocking Neighbor Allgatherv Latency", "ineighbor_allgatherv"),
        ("MPI Alltoall Bandwidth", ""),
        ("MPI Init", ""),
        ("OSHM Put Latency", ""),
        ("MPI Sum Latency", ""),
    ],
)
def test_releases_word_titles_in_different_ways(title: str, benchmark: str) -> None:
    table = only(f"# OSU {title} Test v5.6.3\n# Size  Avg Latency(us)\n8  1.00\n")
    assert osu.benchmark_of(table.title) == benchmark


def test_tails_are_no_values() -> None:
    heads = ("Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations",
             "P50 Tail Lat(us)", "P90 Tail Lat(us)", "P99 Tail Lat(us)")  # fmt: skip
    table = only(
        f"\\# OSU MPI All-to-Allv Personalized Exchange Latency Test v7.5\n\\# {'  '.join(heads)}\n"
        "4096  451.12  446.03  462.70  1000  401.55  570.11  622.98\n"
    )
    assert (table.reason, table.faults) == ("", ())
    assert rows_of(table) == [(4096, "451.12")]
    assert table.rows[0].values["P99 Tail Lat(us)"] == 622.98
    assert table.rows[0].values["Iterations"] == 1000


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("srun ./osu_bw -m 8 -W 64\n", ""),
        ("mpirun osu_bw -i 10 -m 4:8\n", ""),
        ("srun ./osu_bw -m 4:1024\n", "called with `-m 1024`"),
        ("", "a run without `-m` ends at 4194304"),
    ],
)
def test_a_call_says_where_sizes_end(call: str, words: str) -> None:
    for before in ("", "# OSU MPI Latency Test v7.5\n# Size  Latency (us)\n4  1.00\n\n"):
        text = f"{before}{call}# OSU MPI Bandwidth Test v7.5\n# Size  Bandwidth (MB/s)\n8  1.00\n"
        reason = osu.may_be_cut(tables.read(text).tables[-1])
        assert words in reason
        assert bool(reason) == bool(words)
