"""OSU's micro-benchmarks as programs: each test is one, how it is called and what its table says.

Facts from the sources of release 7.4 (mvapich.cse.ohio-state.edu/benchmarks): the tests below
`c/mpi`, their titles, and which take which option; how tables look is in
`stackproof.bench.programs.tables`. OSU's programs print one mean per size, as IMB does. MB is 10^6
bytes; a latency is half of a round trip.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

from stackproof.bench.programs import tables
from stackproof.bench.programs.tables import PrintedTable, TableRow
from stackproof.core.errors import Reason
from stackproof.core.value import Value
from stackproof.results.case import Case, Timing
from stackproof.results.measurement import Output, Series
from stackproof.results.metrics import METRICS

_PAIR = 2
_SLOWEST = "Max Latency(us)"
_ITERATIONS = "Iterations"
# The fewest operations that a row is the mean of, unless `-i` says so: defaults of large sizes.
_FEWEST = {"latency": 1000, "collective": 100, "bandwidth": 20, "rate": 20}


class OsuKind(StrEnum):
    """What of OSU's options a test takes."""

    PAIR = "pt2pt"
    """Two ranks, and where the buffers of each lie."""
    PAIRS = "pairs of all ranks"
    COLLECTIVE = "collective"
    """All ranks; `-f` for minimum and maximum."""
    ONE_SIDED = "one-sided"


class OsuTest(Value):
    """One test: `program` is its executable, `benchmark` a name in `METRICS`, `title` as printed.

    `windowed` says that it keeps a window of messages in flight, `resized` that it takes `-m`.
    """

    program: str
    benchmark: str
    title: str
    kind: OsuKind
    windowed: bool = False
    resized: bool = True


_PAIRS = {
    "latency": "MPI Latency",
    "latency_mt": "MPI Multi-threaded Latency",
    "latency_mp": "MPI Multi-process Latency",
    "latency_persistent": "MPI Latency Persistent",
    "bw": "MPI Bandwidth",
    "bibw": "MPI Bi-Directional Bandwidth",
    "bw_persistent": "MPI Bandwidth Persistent",
    "bibw_persistent": "MPI Bi-Directional Bandwidth Persistent",
    "partitioned_latency": "MPI Partitioned Latency",
}
_MANY_PAIRS = {
    "mbw_mr": "MPI Multiple Bandwidth / Message Rate",
    "multi_lat": "MPI Multi Latency",
}
_ONE_SIDED = {
    "put_latency": "MPI_Put Latency",
    "get_latency": "MPI_Get latency",
    "acc_latency": "MPI_Accumulate latency",
    "get_acc_latency": "MPI_Get_accumulate latency",
    "cas_latency": "MPI_Compare_and_swap latency",
    "fop_latency": "MPI_Fetch_and_op latency",
    "put_bw": "MPI_Put Bandwidth",
    "get_bw": "MPI_Get Bandwidth",
    "put_bibw": "MPI_Put Bi-directional Bandwidth",
}
_EXCHANGE = " Personalized Exchange"
_OPERATIONS = {
    "allgather": "Allgather", "allgatherv": "Allgatherv", "allreduce": "Allreduce",
    "alltoall": f"All-to-All{_EXCHANGE}", "alltoallv": f"All-to-Allv{_EXCHANGE}",
    "alltoallw": f"All-to-Allw{_EXCHANGE}", "barrier": "Barrier", "bcast": "Broadcast",
    "gather": "Gather", "gatherv": "Gatherv", "reduce": "Reduce",
    "reduce_scatter": "Reduce_scatter", "reduce_scatter_block": "Reduce_scatter_block",
    "scatter": "Scatter", "scatterv": "Scatterv",
}  # fmt: skip
_BENCHMARKS = {"bw": "bandwidth", "bibw": "bibandwidth", "mbw_mr": "message_rate"}
"""Names of metrics that are not those of the program."""


def _collectives() -> Iterator[tuple[str, str]]:
    for name, title in _OPERATIONS.items():
        plain = "All-to-All" if name == "alltoall" else title
        near = f"Neighborhood {title.removesuffix(_EXCHANGE)}"
        yield name, f"MPI {title} Latency"
        yield f"i{name}", f"MPI Non-blocking {plain} Latency"
        yield f"{name}_persistent", f"MPI {title} Persistent Latency"
        yield f"neighbor_{name}", f"MPI {near} Latency"
        yield f"ineighbor_{name}", f"MPI Non-blocking {near} Latency"


def _tests() -> Iterator[OsuTest]:
    for kind, titles in (
        (OsuKind.PAIR, _PAIRS),
        (OsuKind.PAIRS, _MANY_PAIRS),
        (OsuKind.ONE_SIDED, _ONE_SIDED),
        (OsuKind.COLLECTIVE, dict(_collectives())),
    ):
        for program, title in titles.items():
            benchmark = _BENCHMARKS.get(program, program)
            if benchmark in METRICS:
                yield OsuTest(
                    program=f"osu_{program}",
                    benchmark=benchmark,
                    title=title,
                    kind=kind,
                    windowed="bw" in program,
                    resized=METRICS[benchmark].sized
                    and program not in {"cas_latency", "fop_latency"},
                )


OSU_TESTS: Mapping[str, OsuTest] = {test.benchmark: test for test in _tests()}
"""The tests by what they measure."""

_WORDS = (
    ("personalized exchange ", ""), ("neighborhood", "neighbor"), ("all to all", "alltoall"),
    ("broadcast", "bcast"),
)  # fmt: skip
# Columns that may hold what a test measures, the first that there is.
VALUE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "latency": ("Avg Latency(us)", "Latency (us)"),
    "collective": ("Avg Latency(us)", "Overall(us)"),
    "bandwidth": ("Bandwidth (MB/s)",),
    "rate": ("Messages/s",),
}


def _plain_title(title: str) -> str:
    """Return a title as all releases would word it.

    They differ in small and large letters, in signs (`All-to-Allv`, `Alltoallv`) and in words
    (`Neighbor`, `Neighborhood`; `Personalized Exchange` or not).
    """
    words = " ".join(re.findall(r"[a-z]+", title.casefold())).removeprefix("mpi ")
    for text, short in _WORDS:
        words = words.replace(text, short)
    return words


_BY_TITLE = {_plain_title(test.title): name for name, test in OSU_TESTS.items()}


def benchmark_of(title: str) -> str:
    """Return the name in `METRICS` of a test's title, empty for one that nothing here measures."""
    return _BY_TITLE.get(_plain_title(title), "")


def metrics_of(table: PrintedTable) -> tuple[tuple[str, str], ...]:
    """Return the metric of a table with the column that has it; empty when it is none of ours."""
    benchmark = benchmark_of(table.title)
    column = _column_of(table, benchmark) if benchmark else ""
    return ((benchmark, column),) if column else ()


def _column_of(table: PrintedTable, benchmark: str) -> str:
    """Return the column with what a benchmark measures, empty where the table has none."""
    names = VALUE_COLUMNS[METRICS[benchmark].kind]
    return next((name for name in names if name in table.columns), "")


def may_be_cut(table: PrintedTable) -> str:
    """Return the sign that a table may have been cut, empty when there is none."""
    benchmark = benchmark_of(table.title)
    if not table.rows or not benchmark or not OSU_TESTS[benchmark].resized:
        return ""
    # Where a run without `-m` ends, in bytes.
    usual = (1 if METRICS[benchmark].kind in {"collective", "rate"} else 4) << 20
    largest, last = int(table.facts.get("largest", usual)), table.rows[-1].size
    if last >= largest:
        return ""
    by_call = f"it was called with `-m {largest}`"
    call = by_call if "largest" in table.facts else f"a run without `-m` ends at {largest}"
    return f"the last size is {last}; {call}"


class OsuBenchmark(Value, kw_only=False):
    """A member of the family; see `stackproof.bench.programs.Benchmark`."""

    test: OsuTest

    @property
    def name(self) -> str:
        """Return the name of the executable."""
        return self.test.program

    def problems(self, case: Case) -> tuple[str, ...]:
        """Return the parts of a case that this program cannot do, in words."""
        return tuple(_problems(self.test, case))

    def argv(self, program: str, case: Case) -> tuple[str, ...]:
        """Return the command line of one rank; how often it repeats is the program's own choice."""
        test, sizes = self.test, sorted(case.sizes)
        full = test.kind is OsuKind.COLLECTIVE
        return (
            program,
            *(("-m", f"{sizes[0]}:{sizes[-1]}") if test.resized and sizes else ()),
            *(("-W", str(case.window)) if test.windowed else ()),
            *(("-f",) if full else ()),
            *case.options,
            *_buffers(test, case),
        )

    def parse(self, stdout: bytes, case: Case) -> Output:
        """Return the results that the program printed; never raises.

        A table counts only below the test's own title, with a column that holds what it measures;
        one with `nan`, or with a failed validation, counts not at all.
        """
        printed = tables.read(stdout.decode(errors="replace"))
        own = [t for t in printed.tables if benchmark_of(t.title) == self.test.benchmark]
        others = [table.title for table in printed.tables if table not in own]
        refused = dict(_faults(self.test, own, others))
        wrong = any(one.reason == Reason.VALIDATION_FAILED for one in own)
        good = len(own) == 1 and not refused and not wrong
        series = tuple(_series(self.test, own[0], case)) if good else ()
        sizes = {row.size for table in own for row in table.rows}
        ended = bool(sizes) and (not self.test.resized or max(sizes) >= max(case.sizes, default=0))
        return Output(
            program=self.name,
            program_version=own[0].version if own else "",
            worlds=len(own),
            series=series,
            complete=ended and not refused and len(own) == 1,
            validation_errors=int(wrong),
            garbage=printed.garbage,
            refused=refused,
            skipped={
                f"{self.test.benchmark} {size}": "not-printed"
                for size in (case.sizes if ended and METRICS[self.test.benchmark].sized else ())
                if size not in sizes
            },
        )


BENCHMARKS = tuple(OsuBenchmark(test) for test in OSU_TESTS.values())


def _buffers(test: OsuTest, case: Case) -> tuple[str, ...]:
    """Return the words for buffers on GPUs: `-d cuda D D`, of collectives without the sides."""
    kinds = [kind for kind in case.memory if kind != "host"]
    if not kinds:
        return ()
    sides = tuple("H" if kind == "host" else "D" for kind in case.memory)
    return ("-d", kinds[0], *(sides if test.kind is not OsuKind.COLLECTIVE else ()))


def _problems(test: OsuTest, case: Case) -> Iterator[str]:
    ranks, sizes = len(case.placement.ranks), sorted(case.sizes)
    if case.benchmarks != (test.benchmark,):
        yield f"{test.program} measures `{test.benchmark}` and nothing else"
    if ranks < _PAIR or (test.kind in {OsuKind.PAIR, OsuKind.ONE_SIDED} and ranks > _PAIR):
        most = "two ranks" if test.kind in {OsuKind.PAIR, OsuKind.ONE_SIDED} else "two or more"
        yield f"{test.program} is for {most}; the placement has {ranks}"
    if test.resized and not sizes:
        yield "no message size is asked for"
    first = next((size for size in sizes if size), 1)
    odd = [size for size in sizes if size and (size % first or (size // first).bit_count() != 1)]
    if test.resized and (odd or (0 in sizes and first != 1)):
        yield f"{test.program} doubles sizes: {odd[0] if odd else first} does not follow"
    kinds = set(case.memory)
    if len(kinds) > 1 and (test.kind is OsuKind.COLLECTIVE or "host" not in kinds):
        yield f"{test.program} has no such two kinds of memory: {', '.join(sorted(kinds))}"
    if case.validate or case.spot_check:
        yield f"{test.program} looks at what it receives with the option `-c` alone"


def _faults(test: OsuTest, own: list[PrintedTable], others: list[str]) -> Iterator[tuple[str, str]]:
    """Yield why what was printed is no result, by the name of the reason."""
    if others:
        yield "other-program", f"`{others[0]}` is not what {test.program} prints: `{test.title}`"
    for table in own:
        column = _column_of(table, test.benchmark)
        if not column:
            wanted = "`, `".join(VALUE_COLUMNS[METRICS[test.benchmark].kind])
            have = ", ".join(table.columns) or "no heading that is known"
            version = f" of version {table.version}" if table.version else ""
            yield "other-columns", f"the table{version} has no column `{wanted}`; it has: {have}"
            continue
        if table.reason and table.reason != Reason.VALIDATION_FAILED:
            yield table.reason, f"line {table.line}: {table.evidence}"
        for row in table.rows:
            if row.values.get(column) is None:
                said = row.printed[column]
                yield "not-a-number", f"line {row.line}, size {row.size}: {column} is `{said}`"
        if table.faults:
            one = table.faults[0]
            yield "broken-row", f"line {one.line}: {one.why}: `{one.text}`"


def _series(test: OsuTest, table: PrintedTable, case: Case) -> Iterator[Series]:
    column, metric = _column_of(table, test.benchmark), METRICS[test.benchmark]
    wanted = set(case.sizes) if test.resized else None
    for row in table.rows:
        mean = row.values[column]
        if mean is None or (wanted is not None and row.size not in wanted):
            continue
        slowest = row.values.get(_SLOWEST) if case.timing == Timing.SYNCHRONISED else None
        collective = test.kind is OsuKind.COLLECTIVE
        yield Series(
            benchmark=test.benchmark,
            size=row.size,
            unit=metric.unit,
            values=(slowest or mean,),
            iterations=_iterations(row, metric.kind, case.options),
            # How many bytes were right is not told; of each size one message at least.
            validated=row.size if row.printed.get("Validation") == "Pass" else None,
            timing=Timing.OSU.value if collective else "",
            mean=(mean,) if collective else (),
            printed={name: value for name, value in row.values.items() if value is not None},
        )


def _iterations(row: TableRow, kind: str, options: tuple[str, ...]) -> int:
    """Return the fewest operations that a row can be the mean of."""
    told = row.values.get(_ITERATIONS)
    if told:
        return int(told)
    after = dict(itertools.pairwise(options)).get("-i", "")
    return int(after) if after.isdecimal() and int(after) else _FEWEST[kind]
