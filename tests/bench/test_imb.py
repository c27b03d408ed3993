"""The tables of IMB-MPI1: a row is right, or it is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.bench.programs import imb
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.metrics import CORE

CAPTURES = Path(__file__).parents[1] / "captures" / "benchmarks"
BENCH = imb.BENCHMARK
# The order in which the captured runs asked for the tables.
NAMES = (
    "latency", "bandwidth", "message_rate", "bibandwidth", "allreduce", "alltoall", "allgather",
    "bcast", "barrier",
)  # fmt: skip
SIZES = (0, 1, 4, 8, 1024, 65536)


def pair(count: int = 2) -> Placement:
    return Placement(name="pair", ranks=tuple(Rank(node="node1", cpu=i) for i in range(count)))


CASE = Case(program="IMB-MPI1", benchmarks=NAMES, sizes=SIZES, placement=pair())


def capture(name: str) -> bytes:
    return (CAPTURES / f"imb-{name}.txt").read_bytes()


WHOLE = capture("intel-mpi")
TEXT = WHOLE.decode()
LINES = TEXT.splitlines(keepends=True)
COMPLETE = BENCH.parse(WHOLE, CASE)
TRUTH = set(COMPLETE.series)


def parse(text: str, case: Case = CASE) -> Any:
    return BENCH.parse(text.encode(), case)


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [start])


def section(title: str) -> str:
    return TEXT[TEXT.index(f"# Benchmarking {title} ") :].split("\n\n")[0]


@pytest.mark.parametrize("family", ["intel-mpi", "mpich"])
def test_a_capture_is_read_as_it_was_written(family: str) -> None:
    output = BENCH.parse(capture(family), CASE)
    assert output.complete
    assert output.worlds == 1
    assert output.world_size == 2
    assert output.program_version == "2021.11"
    assert output.garbage == ()
    assert output.validation_errors == 0
    for metric in CORE:
        sizes = [s.size for s in output.series if s.benchmark == metric]
        expected = {
            "latency": [0, 1, 4, 8, 1024, 65536],
            "message_rate": [0, 1, 4, 8, 1024, 65536],
            "allreduce": [4, 8, 1024, 65536],
            "barrier": [0],
        }.get(metric, [1, 4, 8, 1024, 65536])
        assert sizes == expected, metric
    assert all(s.unit == CORE[s.benchmark].unit for s in output.series)
    assert all(len(s.values) == 1 and s.validated is None for s in output.series)


@pytest.mark.parametrize(
    ("benchmark", "title", "column"),
    [
        ("latency", "PingPong", 2),
        ("bandwidth", "Uniband", 2),
        ("message_rate", "Uniband", 3),
        ("bibandwidth", "Biband", 2),
        ("allreduce", "Allreduce", 4),
        ("alltoall", "Alltoall", 4),
        ("allgather", "Allgather", 4),
        ("bcast", "Bcast", 4),
    ],
)
def test_each_benchmark_is_its_column(benchmark: str, title: str, column: int) -> None:
    words = row(section(title), "1024").split()
    found = next(s for s in COMPLETE.series if (s.benchmark, s.size) == (benchmark, 1024))
    assert found.values == (float(words[column]),)
    assert found.iterations == int(words[1])


def test_the_megabytes_of_pingpong_are_not_bandwidth() -> None:
    output = parse(TEXT, replace(CASE, benchmarks=("latency",)))
    assert {s.benchmark for s in output.series} == {"latency"}


def test_left_out_with_a_reason() -> None:
    assert COMPLETE.skipped["bandwidth 0"] == "too-small"
    assert COMPLETE.skipped["bcast 0"] == "too-small"
    assert COMPLETE.skipped["allreduce 1"] == "granularity"
    assert "latency 0" not in COMPLETE.skipped


def test_four_ranks() -> None:
    case = replace(
        CASE,
        benchmarks=("latency", "message_rate", "allreduce", "barrier"),
        sizes=(0, 3, 8),
        placement=pair(4),
    )
    output = BENCH.parse(capture("mpich-4-ranks"), case)
    assert output.complete
    assert output.world_size == 4
    assert [s.size for s in output.series if s.benchmark == "allreduce"] == [8]
    assert output.skipped["allreduce 3"] == "granularity"


def test_two_runs_in_one_file_are_two_worlds() -> None:
    output = parse(TEXT + TEXT)
    assert output.worlds == 2
    assert not output.complete
    assert output.series == ()


def test_without_a_version_nothing_is_believed() -> None:
    output = parse("".join(line for line in LINES if "Intel(R) MPI Benchmarks" not in line))
    assert output.worlds == 0
    assert output.series == ()
    assert not output.complete


@pytest.mark.parametrize(
    "remark",
    [
        '1024 out-of-mem.; needed X=   0.1 GB; use flag "-mem X"',
        "1024 int-overflow.; The production rank*size caused int overflow for given sample",
        "1024 time-out.; Time limit (secs_per_sample * msg_sizes_list_len) is over",
        "         1024          100          nan          nan",
        "         1024          100          inf         0.00",
        "1024 100 1.50 2.50",
        "         1024          100         1.50",
        "         1024          100          1.5        25.00",
        "         1024          100        -1.50        25.00",
    ],
)  # fmt: skip
def test_what_is_no_row_is_garbage_and_the_run_incomplete(remark: str) -> None:
    table = section("PingPong")
    output = parse(TEXT.replace(table, table.replace(row(table, "1024"), remark)))
    assert remark.strip() in output.garbage
    assert not output.complete
    assert not [s for s in output.series if s.benchmark == "latency"]


def test_noise_between_rows_is_only_noise() -> None:
    noisy = [line + ("PMIX warning: psec\n" if line.startswith("   ") else "") for line in LINES]
    output = parse("".join(noisy))
    assert set(output.series) == TRUTH
    assert output.complete
    assert "PMIX warning: psec" in output.garbage


def test_zero_time_is_no_measurement() -> None:
    table = section("Bcast")
    words = row(table, "8").split()
    zero = "".join(f"{w:>13}" for w in (*words[:2], "0.00", "0.00", "0.00"))
    output = parse(TEXT.replace(table, table.replace(row(table, "8"), zero)))
    assert output.skipped["bcast 8"] == "clock-too-coarse"
    assert not [s for s in output.series if (s.benchmark, s.size) == ("bcast", 8)]


def test_tables_in_another_order_are_doubtful() -> None:
    swapped = replace(CASE, benchmarks=("bandwidth", "latency"))
    output = parse(TEXT, swapped)
    assert not output.complete
    assert output.series == ()


@pytest.mark.battery
def test_no_loss_of_neighbouring_lines_makes_a_wrong_number() -> None:
    """Among these are the losses that join the rows of one table to those of the next."""
    for first in range(len(LINES)):
        for count in range(1, 18):
            kept = LINES[:first] + LINES[first + count :]
            output = parse("".join(kept))
            assert set(output.series) <= TRUTH
            if output.complete:
                assert output.series == COMPLETE.series
    table = section("Uniband").splitlines()
    first = LINES.index(table[-3] + "\n")
    joined = LINES[:first] + LINES[first + 12 :]
    assert [line.split()[0] for line in joined[first - 3 : first + 3]] == list(map(str, SIZES))
    assert not [s for s in parse("".join(joined)).series if s.benchmark == "bandwidth"]


@given(st.lists(st.sampled_from(LINES), max_size=80))
def test_lines_in_any_order_make_no_number_twice(lines: list[str]) -> None:
    output = parse("".join(lines))
    keys = [(s.benchmark, s.size) for s in output.series]
    assert len(keys) == len(set(keys))
    if output.complete:
        assert set(output.series) == TRUTH


def test_argv() -> None:
    case = replace(CASE, sizes=(1024, 8, 8), samples=20, timeout_s=90.0)
    assert BENCH.argv("/opt/IMB-MPI1", case) == (
        "/opt/IMB-MPI1",
        "-npmin", "2",
        "-iter", "1000,20",
        "-time", "90",
        "-window_size", "64",
        "-msgsize", "8,1024",
        "PingPong", "Uniband", "Biband", "Allreduce", "Alltoall", "Allgather", "Bcast", "Barrier",
    )  # fmt: skip
    assert "-msgsize" not in BENCH.argv("i", replace(case, sizes=(), benchmarks=("barrier",)))


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 0),
        ({"benchmarks": ("latency", "speed")}, 1),
        ({"benchmarks": ()}, 1),
        ({"placement": pair(1)}, 1),
        ({"placement": pair(4)}, 1),
        ({"placement": pair(4), "benchmarks": ("latency", "message_rate", "bcast")}, 0),
        ({"validate": True}, 1),
        ({"sizes": (-1,)}, 1),
        ({"sizes": ()}, 1),
        ({"sizes": (), "benchmarks": ("barrier",)}, 0),
        ({"window": 0}, 1),
        ({"samples": 0}, 1),
    ],
)
def test_problems(change: dict[str, Any], count: int) -> None:
    assert len(BENCH.problems(replace(CASE, **change))) == count
