"""Ranks that each believe to be alone, and runs that did nothing: refused with that word.

What each program prints then is captured (ours, IMB-MPI1 2021.11) or, of OSU's tests, written after
their sources: `if(numprocs != 2) { if(myid == 0) fprintf(stderr, "This test requires …"); … }`.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from stackproof.bench.programs import REGISTRY
from stackproof.compare import launch_checks
from stackproof.core.command import Completed
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Check, State

CAPTURES = Path(__file__).parents[1] / "captures" / "benchmarks"
PAIR = Placement(name="pair", ranks=(Rank(node="a", cpu=0), Rank(node="a", cpu=1)))
EXACTLY = "This test requires exactly two processes\n"
LEAST = "This test requires at least two processes\n"
TITLE = "\n# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_INT.\n"
OSU = {"osu_latency": ("latency", EXACTLY), "osu_bw": ("bandwidth", EXACTLY),
       "osu_allreduce": ("allreduce", LEAST), "osu_mbw_mr": ("message_rate", LEAST)}  # fmt: skip


def case(program: str, *benchmarks: str) -> Case:
    return Case(program=program, benchmarks=benchmarks, sizes=(8,), placement=PAIR)


def native(number: int) -> bytes:
    """Return the output of one of our own singletons; each has an identity of its own."""
    lines = b""
    for n, line in enumerate((CAPTURES / "native-singletons.txt").read_bytes().splitlines()[:2]):
        known = json.loads(line)
        known.pop("crc")
        head = json.dumps({**known, "run": f"{number:016x}", "n": n}, separators=(",", ":"))
        body = head[:-1].encode()
        lines += body + b',"crc":"%08x"}\n' % zlib.crc32(body)
    return lines


def checks(asked: Case, stdout: bytes, stderr: bytes, code: int) -> tuple[Check, ...]:
    done = Completed(argv=(), returncode=code, stdout=stdout, stderr=stderr, seconds=1.0)
    output = REGISTRY[asked.program].parse(stdout, asked)
    return launch_checks.judge(
        output, asked, mpi_family="mpich", mpi_version="5.0.2", completed=done
    )


def singletons(found: tuple[Check, ...]) -> bool:
    """Return true where a launch is refused as singletons, by the check of its world."""
    (world,) = (one for one in found if one.name == "world")
    problem = launch_checks.first_failure(found)
    assert problem is not None
    bad = (world.state, world.reason) == (State.BAD, Reason.SINGLETONS)
    return bad and problem.reason is Reason.SINGLETONS


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_our_own_program(count: int) -> None:
    stdout = b"".join(native(number) for number in range(count))
    assert singletons(checks(case("stackproof-bench", "latency"), stdout, b"", 3))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("benchmarks", [("latency",), ("allreduce",), ("latency", "allreduce")])
def test_imb(count: int, benchmarks: tuple[str, ...]) -> None:
    stdout = (CAPTURES / "imb-singleton.txt").read_bytes() * count
    assert singletons(checks(case("IMB-MPI1", *benchmarks), stdout, b"", 0))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("program", OSU)
def test_osu(program: str, code: int, count: int) -> None:
    """Its tests say it on standard error, which some launchers put among the output."""
    benchmark, said = OSU[program]
    asked = case(program, benchmark)
    assert singletons(checks(asked, b"", said.encode() * count, code))
    assert singletons(checks(asked, said.encode() * count, b"", code))


def test_osu_with_tables_of_several_worlds() -> None:
    """Releases that measure alone print as many tables as there are worlds."""
    table = f"{TITLE}# Size       Avg Latency(us)\n8                       0.03\n"
    found = checks(case("osu_allreduce", "allreduce"), table.encode() * 3, b"", 0)
    assert singletons(found)


@pytest.mark.parametrize("stdout", [b"", b"\n\n"])
@pytest.mark.parametrize("program", sorted({*OSU, "stackproof-bench", "IMB-MPI1"}))
def test_a_run_that_printed_nothing_is_none_also_when_it_ended_well(
    program: str, stdout: bytes
) -> None:
    found = checks(case(program, OSU.get(program, ("latency", ""))[0]), stdout, b"", 0)
    problem = launch_checks.first_failure(found)
    assert problem is not None
    assert problem.reason is Reason.TRUNCATED_OUTPUT
    assert problem.message == "the program printed nothing"


def test_a_world_that_is_smaller_than_asked_is_named_with_its_number() -> None:
    four = Placement(name="four", ranks=(*PAIR.ranks, *PAIR.ranks))
    text = (CAPTURES / "imb-mpich.txt").read_bytes()
    known = case("IMB-MPI1", "latency")
    found = checks(replace(known, placement=four), text, b"", 0)
    (world,) = (one for one in found if one.name == "world")
    assert (world.state, world.evidence) == (State.BAD, "the program has 2 ranks, not 4")
