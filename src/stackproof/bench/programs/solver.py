"""Our own solver, `stackproof-solver`: how it is called, how its lines are read.

The program's source is in `csrc/solver/`, and it is compiled for each arm with the arm's own
wrappers; what it does is in docs/explanation/benchmark-program.md. Each way to exchange the halo
has two results, and it always tells both.
"""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.bench.programs.native import MAX_SAMPLES, basic_problems, read_lines
from stackproof.core.value import Value, replace
from stackproof.results.case import Case
from stackproof.results.measurement import Output
from stackproof.results.metrics import SOLVER

NAME = "stackproof-solver"


class StackproofSolver(Value, kw_only=False):
    """The member of the family; see `stackproof.bench.programs.Benchmark`."""

    name: str = NAME

    def problems(self, case: Case) -> tuple[str, ...]:
        """Return the parts of a case that this program cannot do, in words."""
        return tuple(_problems(case))

    def argv(self, program: str, case: Case) -> tuple[str, ...]:
        """Return the command line of one rank; the specification's own words come last.

        What is received is always checked, outside of the timed part.
        """
        return (
            program,
            "--modes", ",".join(_modes(case)),
            "--samples", str(case.samples),
            "--expect-ranks", str(len(case.placement.ranks)),
            *case.options,
        )  # fmt: skip

    def parse(self, stdout: bytes, case: Case) -> Output:
        """Return the results that the program printed, of what was asked for; never raises."""
        told = tuple(f"{part}_{mode}" for mode in _modes(case) for part in ("halo", "solve"))
        found = read_lines(self.name, stdout, replace(case, benchmarks=told))
        asked = tuple(one for one in found.series if one.benchmark in case.benchmarks)
        return replace(found, series=asked)


BENCHMARK = StackproofSolver()


def _modes(case: Case) -> tuple[str, ...]:
    """Return the ways that a case asks for, each once."""
    names = (name.partition("_")[2] for name in case.benchmarks if name in SOLVER)
    return tuple(dict.fromkeys(names))


def _problems(case: Case) -> Iterator[str]:
    unknown = f"{NAME} has no benchmark `{{name}}`; it has: {', '.join(SOLVER)}"
    yield from basic_problems(replace(case, sizes=(1,)), SOLVER, unknown)
    if not 1 <= case.samples <= MAX_SAMPLES:
        yield f"the number of samples must be between 1 and {MAX_SAMPLES}"
    if case.memory:
        yield f"{NAME} sends from the host's memory; ask for stackproof-bench or OSU's programs"
