"""Benchmark programs: how each is called and how its output is read.

A member returns argv and parses bytes; it never runs anything. `results.metrics` has what every
member's results are expressed in, so that programs can be compared with each other.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.bench.programs import imb, native, osu, solver
from stackproof.results.case import Case
from stackproof.results.measurement import Output


class Benchmark(Protocol):
    """A benchmark program."""

    @property
    def name(self) -> str:
        """Return the program's name, as recipes and bench specifications write it."""

    def problems(self, case: Case) -> tuple[str, ...]:
        """Return the parts of a case that this program cannot do, in words."""

    def argv(self, program: str, case: Case) -> tuple[str, ...]:
        """Return the command line of one rank; `program` is the path of the executable."""

    def parse(self, stdout: bytes, case: Case) -> Output:
        """Return the results that the program printed; never raises, whatever the bytes are."""


_MEMBERS: tuple[Benchmark, ...] = (
    native.BENCHMARK,
    solver.BENCHMARK,
    imb.BENCHMARK,
    *osu.BENCHMARKS,
)
REGISTRY: dict[str, Benchmark] = {program.name: program for program in _MEMBERS}
