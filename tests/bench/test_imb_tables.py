"""IMB's files of unknown runs: a row is right, or it is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.bench.programs import imb, tables
from stackproof.bench.programs.tables import PrintedTable
from stackproof.core.errors import Reason

CAPTURES = Path(__file__).parents[1] / "captures" / "benchmarks"
RULE = "#---------------------------------------------------"
BANNER = "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n"


def section(title: str, columns: str, *rows: str, processes: str = "# #processes = 2 ") -> str:
    lines = [RULE, f"# Benchmarking {title} ", processes, RULE, columns, *rows, ""]
    return "\n".join(lines) + "\n"


PING = section(
    "PingPong",
    "       #bytes #repetitions      t[usec]   Mbytes/sec",
    "            0         1000         1.40         0.00",
    "            1         1000         1.41         0.71",
    "            2         1000         1.42         1.41",
)


def only(text: str) -> PrintedTable:
    (table,) = tables.read(text).tables
    return table


def test_a_ping_pong_has_its_latency() -> None:
    table = only(BANNER + PING)
    assert imb.metrics_of(table) == (("latency", "t[usec]"),)
    assert [(row.size, row.values["t[usec]"]) for row in table.rows] == [
        (0, 1.40), (1, 1.41), (2, 1.42),
    ]  # fmt: skip
    assert (table.version, table.facts, table.faults) == ("2021.7", {"processes": "2"}, ())


@pytest.mark.parametrize("name", ["intel-mpi", "mpich"])
def test_a_real_file_has_all_its_tables(name: str) -> None:
    printed = tables.read((CAPTURES / f"imb-{name}.txt").read_text())
    assert len(printed.tables) == 8
    assert (printed.versions, printed.ends) == (("2021.11",), 1)
    assert {table.reason for table in printed.tables} == {""}
    assert all(table.ended and not table.faults for table in printed.tables)


@pytest.mark.parametrize(
    "copied",
    [
        "\n".join(f"    {line}" for line in (BANNER + PING).splitlines()),
        "\n".join(" ".join(line.split()) for line in (BANNER + PING).splitlines())
        .replace("# Benchmarking", "Benchmarking")
        .replace("#bytes", "bytes"),
    ],
    ids=["indented", "without spaces and marks"],
)
def test_copies_are_read(copied: str) -> None:
    table = only(copied)
    assert [row.size for row in table.rows] == [0, 1, 2]
    assert table.version == "2021.7"


def test_bandwidth_counts_only_for_two_processes_and_decimal_megabytes() -> None:
    columns = "       #bytes #repetitions   Mbytes/sec      Msg/sec"
    row = "         1024         1000       900.00       878906"
    two = section("Uniband", columns, row)
    four = section("Uniband", columns, row, processes="# #processes = 4 ")
    assert dict(imb.metrics_of(only(BANNER + two))) == {
        "bandwidth": "Mbytes/sec", "message_rate": "Msg/sec",
    }  # fmt: skip
    assert imb.metrics_of(only(BANNER + four)) == ()
    assert dict(imb.metrics_of(only(two))) == {"message_rate": "Msg/sec"}
    old = BANNER.replace("2021.7", "4.1")
    assert dict(imb.metrics_of(only(old + two))) == {"message_rate": "Msg/sec"}


@pytest.mark.attack
@pytest.mark.battery
@pytest.mark.timeout(120)  # where the cost is the square of the length it takes hours
@pytest.mark.parametrize("piece", ["osu_aa ", "osu_a -m", "-map", "-msglen", " -m1:1", "-m 1 "])
def test_a_line_as_long_as_a_file_costs_what_its_length_says(piece: str) -> None:
    for begin in ("#", "# osu_bw "):
        tables.read(begin + piece * (3_000_000 // len(piece)) + "!")


def test_tables_of_other_programs_of_the_same_name_are_no_metric() -> None:
    text = section(
        "PingPong",
        "       #bytes #repetitions      t[usec]   Mbytes/sec      Msg/sec",
        "            1       100000        24.50         0.08        81627",
        processes="# #processes = 4 ",
    )
    table = only(BANNER + text)
    assert len(table.rows) == 1
    assert imb.metrics_of(table) == ()


def test_tables_of_several_groups_are_no_metric() -> None:
    text = section(
        "Multi-PingPong",
        "        Group       #bytes #repetitions      t[usec]   Mbytes/sec",
        "            0            0         1000         1.40         0.00",
        "            1            0         1000         1.50         0.00",
        processes="# ( 2 groups of 2 processes each running simultaneous ) \n"
        "# Group  0:     0    1\n#\n# Group  1:     2    3\n#",
    )
    assert {imb.metrics_of(table) for table in tables.read(BANNER + text + PING).tables} == {
        (), (("latency", "t[usec]"),),
    }  # fmt: skip
    waiting = PING.replace(
        "# #processes = 2 \n",
        "# #processes = 2 \n# ( 2 additional processes waiting in MPI_Barrier)\n",
    )
    assert only(BANNER + waiting).facts["waiting"] == "2"


def test_barrier_has_no_size() -> None:
    text = section(
        "Barrier",
        "#repetitions  t_min[usec]  t_max[usec]  t_avg[usec]",
        "        1000         2.10         2.30         2.20",
    )
    table = only(BANNER + text)
    assert imb.metrics_of(table) == (("barrier", "t_avg[usec]"),)
    assert (table.rows[0].size, table.rows[0].values["t_avg[usec]"]) == (0, 2.20)


def test_sizes_that_have_no_sample_are_left_out() -> None:
    text = PING.replace("\n\n", "\n            4 time-out.; Time limit (secs_per_sample * msg)\n\n")
    table = only(BANNER + text)
    assert [row.size for row in table.rows] == [0, 1, 2]
    assert [fault.why for fault in table.faults] == ["the program has no sample of 4 bytes"]


def test_sizes_of_a_list_need_not_double() -> None:
    text = PING.replace("            2  ", "          300  ")
    assert [row.size for row in only(BANNER + text).rows] == [0, 1]
    call = "# Calling sequence was: IMB-MPI1 PingPong -msglen sizes.txt\n"
    table = only(BANNER + call + text)
    assert [row.size for row in table.rows] == [0, 1, 300]
    assert table.facts == {"processes": "2"}


def test_the_heading_of_a_lost_title_says_nothing_of_the_table_before() -> None:
    lost = PING.replace("# Benchmarking PingPong \n", "").replace("= 2", "= 4")
    assert only(BANNER + PING + lost).facts == {"processes": "2"}


def test_rows_without_their_number_of_processes_do_not_count() -> None:
    table = only(BANNER + PING.replace("# #processes = 2 \n", ""))
    assert table.reason == Reason.NO_RESULTS


WHOLE = (CAPTURES / "imb-mpich.txt").read_text()
LINES = WHOLE.splitlines()


def readings(lines: list[str]) -> set[tuple[str, str, int, tuple[str, ...]]]:
    return {
        (table.title, table.facts["processes"], row.size, tuple(row.printed.values()))
        for table in tables.read("\n".join(lines)).tables
        if not table.reason
        for row in table.rows
    }


TRUTH = readings(LINES)


@given(st.sets(st.integers(0, len(LINES) - 1), max_size=6))
def test_lost_lines_never_give_a_wrong_number(lost: set[int]) -> None:
    assert readings([line for at, line in enumerate(LINES) if at not in lost]) <= TRUTH


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert readings([text]) == set()
