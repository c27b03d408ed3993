"""stackproof-solver compiled by the mpicc of real MPIs, run with two ranks on this machine.

What it computes is held against the same system, written here from its description in
docs/explanation/benchmark-program.md and solved by NumPy.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nativempis import LIMIT_S, PRELOADS, WARNINGS, environment_of, install, placement
from need import need
from refusals import refusal
from stackproof.bench.effects.compile_program import solver_source
from stackproof.bench.program_spec import SHIPPED
from stackproof.bench.programs import solver
from stackproof.bench.schedule import case_for, schedule
from stackproof.bench.spec import BenchSpec, parse_bench
from stackproof.compare import launch_checks
from stackproof.core.command import Completed
from stackproof.core.document import parse
from stackproof.core.errors import Reason
from stackproof.core.value import Value, replace
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Output, State
from stackproof.results.metrics import HALO_MODES, SOLVER

pytestmark = pytest.mark.machine

FAMILIES = ("mpich", "openmpi")
EXTENT = (4, 4, 4, 8)
COMPONENTS = 3
LATTICE = ("--lattice", "x".join(map(str, EXTENT)), "--components", str(COMPONENTS))
CASE = Case(
    program=solver.NAME,
    benchmarks=tuple(SOLVER),
    sizes=(),
    placement=placement(),
    samples=30,
    validate=True,
    options=LATTICE,
)
Vector = npt.NDArray[np.float64]


class Solver(Value, kw_only=False):
    """The program as an MPI compiled it, and what is preloaded into it."""

    family: str
    prefix: Path
    folder: Path

    def run(
        self, *options: str, ranks: int = 2, preload: str = "", **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it; its ranks alone get the preload."""
        extra = {**env, **({"LD_PRELOAD": str(self.folder / preload)} if preload else {})}
        words = [f"{name}={value}" for name, value in extra.items()]
        argv = [str(self.prefix / "bin" / "mpiexec"), "-n", str(ranks), "env", *words]
        process = subprocess.Popen(
            [*argv, str(self.folder / solver.NAME), *options],
            env=environment_of(self.family, self.prefix), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)

    def measure(
        self, case: Case = CASE, *more: str, preload: str = "", **env: str
    ) -> tuple[Output, subprocess.CompletedProcess[bytes]]:
        argv = solver.BENCHMARK.argv("", case)[1:]
        done = self.run(*argv, *more, ranks=2, preload=preload, **env)
        return solver.BENCHMARK.parse(done.stdout, case), done


@pytest.fixture(scope="module")
def solvers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Solver]:
    need("gcc", "network")
    found = {}
    source = solver_source()
    for family in FAMILIES:
        prefix, folder = install(family), tmp_path_factory.mktemp(family)
        (folder / "solver").mkdir()
        for name, content in source.files.items():
            (folder / name).write_text(str(content))
        mpicc = (str(prefix / "bin" / "mpicc"), *WARNINGS)
        shared = ("-shared", "-fPIC", "-O1", "-Wno-missing-prototypes")
        lines = [(*mpicc, *source.commands[0][1:])]
        lines += [
            (*mpicc, *shared, str(PRELOADS / f"{name}.c"), "-o", f"{name}.so")
            for name in ("counthalo", "wrongbyte")
        ]
        for line in lines:
            done = subprocess.run(
                line, cwd=folder, env=environment_of(family, prefix), capture_output=True,
                text=True, check=False, timeout=LIMIT_S,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, "")
        found[family] = Solver(family=family, prefix=prefix, folder=folder)
    return found


@pytest.fixture(scope="module")
def outputs(solvers: Mapping[str, Solver]) -> Mapping[str, Output]:
    found = {}
    for family, program in solvers.items():
        output, done = program.measure(CASE, "--solution", str(program.folder / "x"))
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        assert output.complete
        found[family] = output
    return found


def checks_of(output: Output, case: Case, code: int, stderr: bytes) -> tuple[Check, ...]:
    ended = Completed(argv=("x",), returncode=code, stdout=b"", stderr=stderr, seconds=1.0)
    return launch_checks.judge(output, case, mpi_family="", mpi_version="", completed=ended)


# --- the same system once more ---------------------------------------------------------------

_MASK = (1 << 64) - 1


def unit(key: int) -> float:
    """Return the number in [0, 1) that the program makes of a key."""
    x = key * 0x9E3779B97F4A7C15 & _MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ x >> shift) * factor & _MASK
    return ((x ^ x >> 31) >> 11) * 2.0**-53


def lattice() -> Vector:
    """Return the operator as a dense matrix, the first direction running fastest."""
    count = math.prod(EXTENT) * COMPONENTS
    matrix = np.zeros((count, count))

    def number(site: Sequence[int], component: int) -> int:
        place = 0
        for at, extent in zip(reversed(site), reversed(EXTENT), strict=True):
            place = place * extent + at % extent
        return place * COMPONENTS + component % COMPONENTS

    for *site, component in itertools.product(*map(range, EXTENT), range(COMPONENTS)):
        row = number(site, component)
        matrix[row, row] += 0.1
        for way in range(8):
            step = -1 if way % 2 else 1
            there = [at + step * (way // 2 == d) for d, at in enumerate(site)]
            weight = 0.5 + 0.5 * unit(9 * row + way)
            matrix[row, row] += weight
            matrix[row, number(there, component + step * (way // 2))] -= weight
    return matrix


def known(count: int) -> Vector:
    return np.array([1 + unit(9 * name + 8) for name in range(count)])


def ilu(matrix: Vector) -> Vector:
    """Return L and U in one matrix, in the pattern of what is factorised."""
    found = matrix.copy()
    for row, columns in enumerate([np.flatnonzero(line) for line in matrix]):
        for other in columns[columns < row]:
            found[row, other] /= found[other, other]
            later = columns[columns > other]
            found[row, later] -= found[row, other] * found[other, later]
    return found


def residuals(matrix: Vector, right: Vector, blocks: int, count: int) -> list[float]:
    """Return those of BiCGSTAB from zero, as van der Vorst wrote it, with ILU(0) of each block."""
    size = len(right) // blocks
    inverse = np.zeros_like(matrix)
    for begin in range(0, len(right), size):
        own = slice(begin, begin + size)
        both = ilu(matrix[own, own])
        inverse[own, own] = np.linalg.inv((np.tril(both, -1) + np.eye(size)) @ np.triu(both))
    r, p, v = right.copy(), 0 * right, 0 * right
    rho = alpha = omega = np.float64(1)
    found = []
    for _ in range(count):
        before, rho = rho, right @ r
        p = r + rho / before * alpha / omega * (p - omega * v)
        v = matrix @ (inverse @ p)
        alpha = rho / (right @ v)
        s = r - alpha * v
        t = matrix @ (inverse @ s)
        omega = (t @ s) / (t @ t)
        r = s - omega * t
        found.append(float(np.linalg.norm(r) / np.linalg.norm(right)))
    return found


def test_residuals_agree_in_all_ways_and_mpis_and_with_another_program(
    outputs: Mapping[str, Output],
) -> None:
    histories = [one.residuals for output in outputs.values() for one in output.series]
    assert len(histories) == len(FAMILIES) * len(SOLVER)
    for history in histories:
        assert history[:10] == pytest.approx(histories[0][:10], rel=1e-10)
        assert history[-1] <= 1e-12 < history[-2]
    per_rank = [rank.halo[mode] for o in outputs.values() for rank in o.ranks for mode in rank.halo]
    assert len(per_rank) == 2 * len(FAMILIES) * len(HALO_MODES)
    assert {one.iterations for one in per_rank} == {len(histories[0])}
    assert {one.residuals for one in per_rank} == {histories[0][:10]}
    matrix = lattice()
    right = matrix @ known(len(matrix))
    assert residuals(matrix, right, 2, 8) == pytest.approx(histories[0][:8], rel=1e-7)


def test_the_solution_is_that_of_a_direct_solver(
    solvers: Mapping[str, Solver], outputs: Mapping[str, Output]
) -> None:
    assert set(outputs) == set(solvers)
    matrix = lattice()
    solved = np.linalg.solve(matrix, matrix @ known(len(matrix)))
    for program in solvers.values():
        lines = "".join((program.folder / f"x.{rank}").read_text() for rank in (0, 1)).splitlines()
        found = dict(line.split() for line in lines)
        assert len(found) == len(lines) == len(solved)
        values = [float(found[str(name)]) for name in range(len(solved))]
        assert values == pytest.approx(list(solved), rel=1e-8)


def test_what_a_rank_tells_of_its_exchanges(outputs: Mapping[str, Output]) -> None:
    """Half a lattice has two faces, which both go to the other rank, as one message."""
    face = math.prod(EXTENT[:3]) * COMPONENTS
    for output in outputs.values():
        for series in output.series:
            halo = series.benchmark.startswith("halo_")
            assert series.iterations == (2 if halo else 1)
            assert series.validated
            assert len(series.values) % len(series.residuals) == 0
            assert CASE.samples <= len(series.values) < CASE.samples + len(series.residuals)
        for rank in output.ranks:
            for mode in HALO_MODES:
                told = rank.halo[mode]
                assert (told.messages, told.bytes) == (1, 2 * face * 8)
                solves = len(output.series[0].values) // told.iterations
                assert sum(told.histogram.values()) == 2 * told.iterations * (solves + 1)
                assert told.exchanges == sum(told.histogram.values()) + 2
        checks = checks_of(output, CASE, 0, b"")
        assert {check.name for check in checks if check.state is State.BAD} == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_messages_and_times_are_those_that_another_counts(
    solvers: Mapping[str, Solver], family: str
) -> None:
    """The calls of the MPI are counted and timed from outside of the program."""
    output, done = solvers[family].measure(preload="counthalo.so")
    lines = re.findall(r"^counted (\d) (.*)$", done.stderr.decode(), re.MULTILINE)
    assert len(lines) == 2
    for number, text in lines:
        halo = output.ranks[int(number)].halo
        counts = {key: int(value) for key, value in re.findall(r"([a-z]+)=(\d+)", text)}
        sent = {mode: one.exchanges * one.messages for mode, one in halo.items()}
        assert counts["isend"] == sent["indexed"] + sent["pack"]
        assert counts["start"] == 2 * sent["persistent"]
        assert counts["put"] == sent["onesided"]
        assert counts["neighbour"] == halo["neighbour"].exchanges
        timed = {int(ns): int(n) for ns, n in re.findall(r"(\d+):(\d+)", text)}
        inside = middle(timed)
        told = middle({int(ns): n for ns, n in halo["neighbour"].histogram.items()})
        print(
            f"{family}, rank {number}: half of the exchanges took {inside}, by its word {told} ns"
        )
        # The program packs besides. On a busy machine nothing narrower holds.
        assert inside <= 2 * told
        assert told <= 8 * inside


def middle(histogram: Mapping[int, int]) -> int:
    """Return the bin of the median."""
    values = [ns for ns, count in sorted(histogram.items()) for _ in range(count)]
    return values[len(values) // 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_bytes_and_what_does_not_converge_never_count(
    solvers: Mapping[str, Solver], family: str
) -> None:
    packed = replace(CASE, benchmarks=("halo_pack", "solve_pack"), samples=1)
    size = str(2 * math.prod(EXTENT[:3]) * COMPONENTS * 8)
    runs: tuple[tuple[tuple[str, ...], dict[str, str], str], ...] = (
        ((), {"preload": "wrongbyte.so", "STACKPROOF_WRONGBYTE_SIZE": size}, "halo_pack"),
        (("--iterations", "3"), {}, "did not converge: the residual is"),
    )
    for more, planted, words in runs:
        output, done = solvers[family].measure(packed, *more, **planted)
        assert done.returncode == 4
        checks = checks_of(output, packed, done.returncode, done.stderr)
        problem = launch_checks.first_failure(checks, done.stderr)
        assert problem is not None
        assert problem.reason is Reason.VALIDATION_FAILED
        assert words in problem.message


def test_sums_that_are_wrong_everywhere_give_other_residuals(
    solvers: Mapping[str, Solver], outputs: Mapping[str, Output]
) -> None:
    """The program itself cannot tell: it converges. `compare` does (test_halo.py)."""
    output, done = solvers["mpich"].measure(preload="counthalo.so", STACKPROOF_SKEW="1e-6")
    assert done.returncode == 0
    first, right = output.series[0].residuals, outputs["mpich"].series[0].residuals
    assert first[5] == pytest.approx(right[5], rel=1e-2)
    assert abs(first[5] / right[5] - 1) > 1e-8


def test_a_slow_datatype_path_shows_in_its_own_way_alone(solvers: Mapping[str, Solver]) -> None:
    """What is planted is the least that an exchange can take; what the comparison makes of such
    numbers is in test_halo.py.
    """
    asked = replace(CASE, benchmarks=("halo_indexed", "halo_pack"))
    output, done = solvers["openmpi"].measure(
        asked, preload="counthalo.so", STACKPROOF_SLOW_TYPES="5000000"
    )
    assert done.returncode == 0
    least = {series.benchmark: min(series.values) for series in output.series}
    print(f"the shortest exchanges, us: {least}")
    assert least["halo_indexed"] >= 5000
    assert least["halo_pack"] < least["halo_indexed"]


# --- matrices from files ---------------------------------------------------------------------


def matrix_bytes(**change: Any) -> bytes:
    """Return the file of a matrix of four rows, with changes."""
    given: dict[str, Any] = {
        "magic": b"SPCSR 1\n", "rows": 4, "columns": 4, "entries": 8, "start": (0, 2, 4, 6, 8),
        "column": (0, 1, 1, 2, 2, 3, 0, 3), "value": (3.0, 1, 3, 1, 3, 1, 1, 3),
    }  # fmt: skip
    given |= change
    start, column, value = (tuple(given[key]) for key in ("start", "column", "value"))
    magic: bytes = given["magic"]
    return (
        magic
        + struct.pack("<3Q", given["rows"], given["columns"], given["entries"])
        + struct.pack(f"<{len(start)}Q", *start)
        + struct.pack(f"<{len(column)}Q", *column)
        + struct.pack(f"<{len(value)}d", *value)
    )


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_matrix_from_a_file_is_solved(
    solvers: Mapping[str, Solver], tmp_path: Path, ranks: int
) -> None:
    (tmp_path / "m.csr").write_bytes(matrix_bytes())
    words = ("--matrix", str(tmp_path / "m.csr"), "--solution", str(tmp_path / "x"))
    done = solvers["mpich"].run(*words, "--samples", "1", ranks=ranks)
    assert done.returncode == 0, done.stderr
    lines = "".join((tmp_path / f"x.{rank}").read_text() for rank in range(ranks)).splitlines()
    dense = np.zeros((4, 4))
    dense[[0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 2, 2, 3, 0, 3]] = (3.0, 1, 3, 1, 3, 1, 1, 3)
    solved = np.linalg.solve(dense, dense @ known(4))
    assert {int(line.split()[0]): float(line.split()[1]) for line in lines} == pytest.approx(
        dict(enumerate(solved)), rel=1e-8
    )


HUGE = 1 << 62
BAD_FILES = {
    "is cut": matrix_bytes()[:-3],
    "has more behind its end": matrix_bytes() + b"x",
    "is not square": matrix_bytes(columns=5),
    "is too large": matrix_bytes(rows=HUGE, columns=HUGE),
    "is too large: 4 rows": matrix_bytes(entries=HUGE),
    "does not begin with `SPCSR 1`": b"%%MatrixMarket matrix\n",
    "fewer rows than there are ranks": matrix_bytes(
        rows=1, columns=1, entries=1, start=(0, 1), column=(0,), value=(1.0,)
    ),
    "row 1 of the matrix (counted from 0) has a value that is not a finite": matrix_bytes(
        value=(3.0, 1, math.inf, 1, 3, 1, 1, 3)
    ),
    "row 2 of the matrix (counted from 0) has a column that": matrix_bytes(
        column=(0, 1, 1, 2, 2, 4, 0, 3)
    ),
    "row 3 of the matrix (counted from 0) has columns that are not in": matrix_bytes(
        column=(0, 1, 1, 2, 2, 3, 3, 0)
    ),
    "does not grow from 0": matrix_bytes(start=(0, 2, 4, 3, 8)),
    "does not grow from 0 to its number": matrix_bytes(start=(0, 2, 4, 1 << 63, 8)),
    "row 2 of the matrix (counted from 0) has no pivot": matrix_bytes(
        column=(0, 1, 1, 2, 1, 3, 0, 3)
    ),
}
BAD_WORDS = {
    "cannot be divided among 2 ranks": ("--lattice", "5x7x9x11"),
    "too many unknowns for 2 ranks": ("--lattice", "65535x65535x65535x65534"),
    "`8x8x8` is not a value of `--lattice`": ("--lattice", "8x8x8"),
    "`pack,fence` is not a value of `--modes`": ("--modes", "pack,fence"),
    "unknown option `--plant`": ("--plant", "1"),
    "`` is not a value of `--matrix`": ("--matrix",),
    "is no file that can be read": ("--matrix", "/nowhere/m.csr"),
}


@pytest.mark.parametrize("words", [*BAD_FILES, *BAD_WORDS])
def test_bad_input_ends_with_a_sentence_before_anything_is_measured(
    solvers: Mapping[str, Solver], tmp_path: Path, words: str
) -> None:
    options = BAD_WORDS.get(words, ("--matrix", str(tmp_path / "m.csr")))
    (tmp_path / "m.csr").write_bytes(BAD_FILES.get(words, b""))
    done = solvers["mpich"].run(*options)
    assert done.returncode == 2
    said = [line for line in done.stderr.decode().splitlines() if line.startswith(solver.NAME)]
    assert words in said[0]
    assert b'"series"' not in done.stdout
    if done.stdout:
        output = solver.BENCHMARK.parse(done.stdout, CASE)
        problem = launch_checks.first_failure(checks_of(output, CASE, 2, done.stderr))
        assert problem is not None
        assert problem.reason is Reason.INVALID_VALUE
        assert words in problem.message


# --- in a specification ----------------------------------------------------------------------

ARM = {"name": "a", "image": "a.squashfs"}


def specification(**entry: object) -> BenchSpec:
    """Return the specification that has the solver with more keys."""
    programs = [{"name": solver.NAME, **entry}] if entry else [solver.NAME]
    text = json.dumps({"baseline": ARM, "programs": programs, "placements": ["intra-node"]})
    return parse_bench(parse(text, file="halo.yaml"))


def test_a_specification_names_it_and_its_sources_are_ours() -> None:
    spec = specification(benchmarks=["halo_pack"], options=list(LATTICE))
    (program,) = spec.programs
    assert program.source == SHIPPED
    arms = {"a": frozenset({solver.NAME})}
    for launch in schedule(spec, arms):
        asked = case_for(spec, launch, placement(), "shm")
        assert (asked.benchmarks, asked.options) == (("halo_pack",), LATTICE)
        assert (asked.validate, asked.spot_check) == (launch.block == 0, launch.block != 0)
    assert specification().programs[0].source == SHIPPED


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"benchmarks": ["latency"]}, "`stackproof-solver` does not measure `latency`"),
        ({"source": "solver.tar"}, "`source` is not for `stackproof-solver`"),
        ({"configure": ["--fast"]}, "`configure` is not for `stackproof-solver`"),
    ],
)
def test_what_a_specification_cannot_ask_of_it(entry: dict[str, Any], words: str) -> None:
    assert [one.message for one in refusal(specification, **entry).problems] == [words]
