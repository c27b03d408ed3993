"""The lines of stackproof-bench: what is read is right, whatever happened on the way."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.bench.programs import native, stray_output
from stackproof.bench.programs.native_lines import RankLine, decode, facts_of
from stackproof.core import noun
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import (
    Disturbance,
    NodeInterface,
    Output,
    RankClock,
    RankFacts,
    Series,
)
from stackproof.results.metrics import CORE

CAPTURES = Path(__file__).parents[1] / "captures" / "benchmarks"
BENCH = native.BENCHMARK
SIZES = (0, 1, 4, 8, 1024, 65536)
FAMILIES = ["openmpi", "mpich", "intel-mpi"]
CASE = Case(
    program="stackproof-bench",
    benchmarks=tuple(CORE),
    sizes=SIZES,
    placement=Placement(name="pair", ranks=(Rank(node="node1", cpu=0), Rank(node="node1", cpu=1))),
    samples=3,
    seconds_per_size=0.004,
    validate=True,
)
SMALL = replace(CASE, benchmarks=("latency",), sizes=(8,), validate=False)


def capture(name: str) -> bytes:
    return (CAPTURES / f"native-{name}.txt").read_bytes()


WHOLE = capture("openmpi")
LINES = WHOLE.splitlines(keepends=True)
TRUTH = set(BENCH.parse(WHOLE, CASE).series)


def record(kind: str, number: int, run: str = "0" * 16, **members: Any) -> bytes:
    """Return a line as the program writes it."""
    head = json.dumps({"kind": kind, "run": run, "n": number, **members}, separators=(",", ":"))
    body = head[:-1].encode()
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def start(**members: Any) -> bytes:
    known = {
        "program": "stackproof-bench",
        "version": "1.0",
        "mpi_library": "MPI",
        "world_size": 2,
        "clock": {"resolution_s": 1e-8},
    }
    return record("start", 0, **{**known, **members})


def series(number: int = 1, run: str = "0" * 16, **members: Any) -> bytes:
    known = {"benchmark": "latency", "size": 8, "unit": "us", "iterations": 10, "values": [1.5]}
    return record("series", number, run, **{**known, **members})


def rank(number: int, which: int, **members: Any) -> bytes:
    known = {
        "rank": which,
        "host": "node1",
        "cpus": str(which),
        "cpu_start": which,
        "cpu_end": which,
        "net": {"eth0": {"rx": 1, "tx": 7}},
        "libraries": ["/opt/mpi/lib/libmpi.so.12"],
    }
    return record("rank", number, **{**known, **members})


def end(number: int, **members: Any) -> bytes:
    return record("end", number, **{"ok": True, "errors": 0, "records": number + 1, **members})


def run_of(*parts: bytes, case: Case = SMALL) -> Output:
    return BENCH.parse(b"".join(parts), case)


def good(series_line: bytes | None = None) -> list[bytes]:
    return [start(), series_line or series(), rank(2, 0), rank(3, 1), end(4)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_capture_is_read_as_it_was_written(family: str) -> None:
    output = BENCH.parse(capture(family), CASE)
    records = [json.loads(line) for line in capture(family).splitlines()]
    told = [r for r in records if r["kind"] == "series"]
    assert [(s.benchmark, s.size, s.unit, list(s.values), s.iterations) for s in output.series] == [
        (r["benchmark"], r["size"], r["unit"], r["values"], r["iterations"]) for r in told
    ]
    assert output.complete
    assert output.worlds == 1
    assert output.world_size == 2
    assert output.validation_errors == 0
    assert output.garbage == ()
    assert output.mpi_library == records[0]["mpi_library"]
    assert output.program_version == "1.0"
    assert 0 < output.clock["resolution_s"] < 1e-3
    assert 0 < output.clock["overhead_s"] < 1e-3
    assert [(r.rank, r.host, r.cpus, r.cpu) for r in output.ranks] == [
        (0, "node1", (0,), 0),
        (1, "node1", (1,), 1),
    ]
    assert all(any("libmpi.so" in path for path in r.libraries) for r in output.ranks)
    assert all("lo" in r.tx_bytes for r in output.ranks)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_byte_of_a_capture_was_checked(family: str) -> None:
    by_name = {(s.benchmark, s.size): s for s in BENCH.parse(capture(family), CASE).series}
    assert all(s.validated is not None for s in by_name.values())
    # After the timed part each receive buffer is checked, and two validation exchanges follow.
    assert by_name["latency", 1024].validated == 2 * 1024 * (1 + 2)
    assert by_name["bandwidth", 1024].validated == 1024 * (1 + 2 * 64)
    assert by_name["bibandwidth", 1024].validated == 2 * 1024 * (1 + 2 * 64)
    assert by_name["alltoall", 1024].validated == 2 * 2 * 1024 * (1 + 2)
    assert by_name["bcast", 1024].validated == 1024 * (1 + 2)
    assert by_name["barrier", 0].validated == 0


def test_what_makes_no_sense_is_left_out_with_a_reason() -> None:
    output = BENCH.parse(WHOLE, CASE)
    assert output.skipped["bandwidth 0"] == "too-small"
    assert output.skipped["allreduce 1"] == "too-small"
    assert "latency 0" not in output.skipped


def test_singletons_are_worlds_and_give_no_numbers() -> None:
    output = BENCH.parse(capture("singletons"), CASE)
    assert output.worlds == 2
    assert output.world_size == 1
    assert not output.complete
    assert output.series == ()
    mixed = BENCH.parse(WHOLE + capture("mpich"), CASE)
    assert mixed.worlds == 2
    assert mixed.series == ()
    assert not mixed.complete


def test_labels_of_a_launcher_are_no_garbage() -> None:
    case = replace(CASE, benchmarks=("latency",))
    output = BENCH.parse(capture("labelled"), case)
    assert output.complete
    assert output.garbage == ()
    assert len(output.series) == len(SIZES)


def test_noise_beside_a_record_is_kept_apart() -> None:
    noisy = [b"warning: slow" + line for line in LINES]
    noisy[3] = noisy[3].rstrip(b"\n") + b" [1700000000] trailing\n"
    output = BENCH.parse(b"".join(noisy), CASE)
    assert set(output.series) == TRUTH
    assert output.complete
    assert output.garbage[:2] == ("warning: slow", "warning: slow")
    assert "warning: slow [1700000000] trailing" in output.garbage


def test_records_whose_line_end_was_lost_are_found() -> None:
    output = BENCH.parse(WHOLE.replace(b"\n", b""), CASE)
    assert output.complete
    assert set(output.series) == TRUTH


def test_a_torn_record_before_a_whole_one_takes_nothing_with_it() -> None:
    torn = [*LINES[:4], LINES[4][:60], *LINES[5:]]
    output = BENCH.parse(b"".join(torn), CASE)
    assert len(output.series) == len(TRUTH) - 1
    assert set(output.series) < TRUTH
    assert not output.complete


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_character_makes_no_number(at: int, change: int) -> None:
    changed = bytearray(WHOLE)
    changed[at] ^= change
    assert set(BENCH.parse(bytes(changed), CASE).series) <= TRUTH


@given(st.permutations(range(len(LINES))))
def test_the_order_of_lines_does_not_matter(order: list[int]) -> None:
    output = BENCH.parse(b"".join(LINES[i] for i in order), CASE)
    assert output.complete
    assert output.series == BENCH.parse(WHOLE, CASE).series


def test_a_line_said_twice_counts_once() -> None:
    output = BENCH.parse(WHOLE + LINES[1], CASE)
    assert output.series == BENCH.parse(WHOLE, CASE).series
    assert output.complete
    assert len(output.garbage) == 1


def test_two_lines_of_one_number_that_disagree_are_both_dropped() -> None:
    output = run_of(*good(), series(1, values=[2.5]))
    assert output.series == ()
    assert not output.complete


def test_the_smallest_good_run() -> None:
    output = run_of(*good())
    assert output.complete
    assert output.series == (
        Series(benchmark="latency", size=8, unit="us", values=(1.5,), iterations=10),
    )
    assert output.ranks[1].tx_bytes == {"eth0": 7}


@pytest.mark.parametrize(
    "line",
    [
        series(benchmark="bandwidth", unit="MB/s"),
        series(benchmark="nothing"),
        series(size=16),
        series(unit="MB/s"),
        series(iterations=0),
        series(values=[]),
        series(values=[1.5, -1.0]),
        series(values=[0.0]),
        series(values="1.5"),
        series(values=["1.5"]),
        series(size="8"),
        series(size=8.5),
        record("series", 1, benchmark="latency"),
        record("something", 1),
        record("series", 1, run=7),  # type: ignore[arg-type]
        b'{"kind":"' + b"[" * 5000 + b',"crc":"00000000"}\n',
    ],
)
def test_what_is_no_record_or_not_of_this_case_is_garbage(line: bytes) -> None:
    output = run_of(*good(line))
    assert output.series == ()
    assert not output.complete
    assert output.garbage


@pytest.mark.parametrize(
    "lines",
    [
        [start(world_size=3), *good()[1:]],
        [start(world_size=2**62), *good()[1:]],
        [*good()[:3], rank(3, 0), end(4)],
        [*good()[:4], end(4, records=9)],
        [*good()[:4], record("error", 4, reason="out-of-memory", message="no memory"), end(5)],
        [start(), series(), series(2), rank(3, 0), rank(4, 1), end(5)],
        good()[1:],
        good()[:-1],
        [start(), rank(1, 0), rank(2, 1), end(3)],
        [],
    ],
    ids=[
        "a rank is missing",
        "absurd world",
        "a rank twice",
        "wrong count",
        "error",
        "size twice",
        "no start",
        "no end",
        "no series",
        "nothing",
    ],
)
def test_what_is_not_whole_is_not_complete(lines: Iterable[bytes]) -> None:
    assert not run_of(*lines).complete


def test_wrong_bytes_are_counted() -> None:
    lines = [start(), series(validated=100, errors=3), rank(2, 0), rank(3, 1), end(4, errors=3)]
    output = run_of(*lines)
    assert output.validation_errors == 3
    assert output.complete
    assert output.series[0].validated == 100
    assert run_of(start(), end(4, errors=3)).validation_errors == 3


def test_a_rank_that_moved_has_no_cpu() -> None:
    moved = [start(), series(), rank(2, 0, cpu_end=5, cpus="0-3,8"), rank(3, 1), end(4)]
    facts = run_of(*moved).ranks[0]
    assert facts.cpu is None
    assert facts.cpus == (0, 1, 2, 3, 8)


@pytest.mark.parametrize("cpus", ["", "a", "0-", "1-2-3", "99999999", "0-65536," * 5 + "1", "-1"])
def test_a_cpu_list_that_is_none_is_unknown(cpus: str) -> None:
    output = run_of(start(), series(), rank(2, 0, cpus=cpus), rank(3, 1), end(4))
    assert output.ranks[0].cpus == ()


@pytest.mark.timeout(120)  # where the cost is the square of the length it takes hours
def test_much_garbage_costs_little_memory_and_time() -> None:
    output = BENCH.parse(b"x" * 1000 + b"\n" + b"noise\n" * 100_000, CASE)
    assert len(output.garbage) == stray_output.MAX_LINES + 1
    assert "99801" in output.garbage[-1]
    assert max(map(len, output.garbage)) <= stray_output.MAX_LENGTH + 1
    hostile = b'{"kind":"' * 200_000 + b',"crc":"00000000"}'
    assert BENCH.parse(hostile, CASE).series == ()


def test_argv() -> None:
    case = replace(CASE, sizes=(8, 8, 1024), benchmarks=("latency", "barrier", "latency"))
    assert BENCH.argv("/opt/bench", case) == (
        "/opt/bench",
        "--benchmarks", "latency,barrier",
        "--sizes", "8,1024",
        "--samples", "3",
        "--seconds-per-size", "0.004",
        "--window", "64",
        "--expect-ranks", "2",
        "--check", "all",
    )  # fmt: skip
    quick = BENCH.argv("b", replace(case, validate=False, sizes=(), seconds_per_size=1e-05))
    assert quick[quick.index("--check") + 1] == "none"
    sampled = BENCH.argv("b", replace(case, validate=False, spot_check=True, timing="osu"))
    assert sampled[sampled.index("--check") + 1] == "sample"
    assert sampled[sampled.index("--timing") + 1] == "osu"
    assert "--sizes" not in quick
    assert quick[quick.index("--seconds-per-size") + 1] == "1e-05"


def alone() -> Placement:
    return Placement(name="one", ranks=(Rank(node="node1"),))


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 0),
        ({"benchmarks": ("latency", "speed", "fun")}, 2),
        ({"benchmarks": ()}, 1),
        ({"placement": alone()}, 1),
        ({"sizes": ()}, 1),
        ({"sizes": (), "benchmarks": ("barrier",)}, 0),
        ({"sizes": (-1,)}, 1),
        ({"sizes": (2**31,), "benchmarks": ("latency",)}, 1),
        ({"sizes": tuple(range(1025))}, 1),
        ({"window": 0}, 1),
        ({"window": 65537}, 1),
        ({"samples": 0}, 1),
        ({"seconds_per_size": 0.0}, 1),
        ({"seconds_per_size": float("nan")}, 1),
        ({"sizes": (1 << 28,), "benchmarks": ("alltoall", "allgather")}, 2),
    ],
)
def test_problems(change: dict[str, Any], count: int) -> None:
    assert len(BENCH.problems(replace(CASE, **change))) == count


def test_build_ids_and_shared_memory_are_told_by_newer_programs() -> None:
    more = {
        "build_ids": {"/opt/mpi/lib/libmpi.so.12": "0badcafe"},
        "shared": ["/dev/shm/mpich_shar_tmp1"],
    }
    output = run_of(start(), series(), rank(2, 0, **more), rank(3, 1), end(4))
    assert output.complete
    assert output.ranks[0].build_ids == more["build_ids"]
    assert output.ranks[0].shared == ("/dev/shm/mpich_shar_tmp1",)
    assert (output.ranks[1].build_ids, output.ranks[1].shared) == ({}, ())
    wrong = run_of(start(), series(), rank(2, 0, build_ids=["x"]), rank(3, 1), end(4))
    assert not wrong.complete


@pytest.mark.parametrize("piece", [7, 100, 1024])
def test_lines_that_a_launcher_cut_are_put_together(piece: int) -> None:
    """srun with labels cuts long lines; the checksum proves what belongs together."""
    libraries = [f"/opt/mpi/lib/libfabric-provider-{number}.so" for number in range(60)]
    parts = [start(), series(), rank(2, 0, libraries=libraries), rank(3, 1), end(4)]
    whole = run_of(*parts)
    cut = []
    for part in parts:
        line = part.rstrip(b"\n")
        cut += [line[at : at + piece] for at in range(0, len(line), piece)]
    if piece * 60 > max(map(len, parts)):
        assert run_of(b"\n".join(cut)) == whole
    # A piece that is lost costs its record, and no other one.
    del cut[-1]
    damaged = run_of(b"\n".join(cut))
    assert not damaged.complete
    assert damaged.series == whole.series or piece == 7


def test_a_cut_line_with_another_between_is_not_put_together() -> None:
    line = series().rstrip(b"\n")
    mixed = b"\n".join(
        [line[:40], start().rstrip(b"\n"), line[40:], rank(2, 0), rank(3, 1), end(4)]
    )
    output = run_of(mixed)
    assert not output.complete
    assert output.series == ()
    assert output.world_size == 2


def test_what_version_2_tells_beside_the_values() -> None:
    measured = series(
        timing="synchronised", mean=[1.25], late=2, skew_us=0.03, clock_error_us=0.0, validated=8,
        check_s=1e-5,
        disturbance={"wall_s": 0.02, "run_queue_wait_s": 0.001, "involuntary_switches": 3},
    )  # fmt: skip
    wrong = record(
        "wrong", 2, benchmark="latency", size=8, rank=1, bytes=1, source=0, round=-1, message=0,
        offset=7, expected=1, seen=17,
    )  # fmt: skip
    told = rank(
        3, 0,
        disturbance={"wall_s": 1.0, "involuntary_switches": 4, "other_load": 0.5},
        interfaces={"eth0": {"up": True, "mbit": 1000, "addresses": ["10.0.0.1"]}},
        parts={"latency 8": {"eth0": 1234}},
    )  # fmt: skip
    output = run_of(start(), measured, wrong, told, rank(4, 1), end(5, errors=1))
    assert output.complete
    (one,) = output.series
    assert (one.timing, one.mean, one.late, one.skew_us) == ("synchronised", (1.25,), 2, 0.03)
    assert one.disturbance == Disturbance(
        wall_s=0.02, run_queue_wait_s=0.001, involuntary_switches=3
    )
    assert (output.wrong[0].rank, output.wrong[0].offset, output.wrong[0].round) == (1, 7, -1)
    first, second = output.ranks
    assert first.disturbance is not None
    assert first.disturbance.other_load == 0.5
    assert first.interfaces == {"eth0": NodeInterface(up=True, mbit=1000, addresses=("10.0.0.1",))}
    assert first.parts == {"latency 8": {"eth0": 1234}}
    assert (second.disturbance, second.interfaces, second.parts) == (None, {}, {})


def test_a_rank_tells_of_its_clock_and_older_programs_do_not() -> None:
    told = {
        "shared": True, "skew_us": 0.1, "skew_bound_us": 2.5, "moved_us": 300.1,
        "moved_bound_us": 3.0, "jump_us": 299.8,
    }  # fmt: skip
    for clock in (None, told):
        found = decode(rank(1, 0, **({"clock": clock} if clock else {})))
        assert isinstance(found, RankLine)
        facts = facts_of(found)
        assert facts.clock == (RankClock(**told) if clock else None)
        text = noun.to_json(facts)
        assert noun.from_json(RankFacts, text) == facts
        assert ("jump_us" in text) is bool(clock)


@pytest.mark.parametrize("memory", [None, {"kind": "host"}, {"kind": "cuda", "devices": 4}])
def test_a_rank_tells_where_its_buffers_lay(memory: dict[str, object] | None) -> None:
    """Programs of images that were built before do not; they say nothing of it then."""
    line = decode(rank(1, 0, **({"memory": memory} if memory else {})))
    assert isinstance(line, RankLine)
    found = facts_of(line).memory
    assert (found and found.kind) == (memory and memory["kind"])
    assert (found and found.devices) == (memory and memory.get("devices", 0))


@pytest.mark.parametrize("text", [b"", b"{}", b'{"kind":"rank"}', b'{"kind":"memory"}', b"\xff"])
def test_what_is_no_line_is_not_decoded(text: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decode(text)
