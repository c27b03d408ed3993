"""IMB-MPI1 of the Intel MPI Benchmarks: how it is called, what its tables say.

It comes with Intel MPI and is a second opinion on our own program. It prints one mean per size, so
each of its series has one value, and with two decimals; how its tables look is in
`stackproof.bench.programs.tables`. After the last of them it prints that it enters MPI_Finalize.

PingPong's `Mbytes/sec` is derived from its time and is not the windowed bandwidth; it is not read.
Uniband and Biband keep a window of messages in flight as OSU does, so they are bandwidth. With more
than two ranks they add up all pairs, which is another quantity than the bandwidth of one pair.
MB is 10^6 bytes since release 2018; of older output, or output without a version, no bandwidth is
taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stackproof.bench.programs import tables
from stackproof.bench.programs.native import basic_problems
from stackproof.bench.programs.tables import ParsedTables, PrintedTable, TableRow
from stackproof.core.value import Value
from stackproof.results.case import Case, Timing
from stackproof.results.measurement import Output, Series
from stackproof.results.metrics import CORE

_TIMES = ("#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]")
_BANDS = ("#bytes", "#repetitions", "Mbytes/sec", "Msg/sec")
_FLOAT_BYTES = 4
_MEAN = "t_avg[usec]"
_SLOWEST = "t_max[usec]"


class Section(Value, kw_only=False):
    """A table of the program: its columns, and which of them is which benchmark."""

    columns: tuple[str, ...]
    reads: tuple[tuple[str, str], ...]


SECTIONS = {
    "PingPong": Section(
        columns=("#bytes", "#repetitions", "t[usec]", "Mbytes/sec"),
        reads=(("latency", "t[usec]"),),
    ),
    "Uniband": Section(
        columns=_BANDS,
        reads=(("bandwidth", "Mbytes/sec"), ("message_rate", "Msg/sec")),
    ),
    "Biband": Section(columns=_BANDS, reads=(("bibandwidth", "Mbytes/sec"),)),
    "Allreduce": Section(columns=_TIMES, reads=(("allreduce", "t_avg[usec]"),)),
    "Alltoall": Section(columns=_TIMES, reads=(("alltoall", "t_avg[usec]"),)),
    "Allgather": Section(columns=_TIMES, reads=(("allgather", "t_avg[usec]"),)),
    "Bcast": Section(columns=_TIMES, reads=(("bcast", "t_avg[usec]"),)),
    "Barrier": Section(
        columns=_TIMES[1:],
        reads=(("barrier", "t_avg[usec]"),),
    ),
}
_SECTION_OF = {name: title for title, section in SECTIONS.items() for name, _ in section.reads}

_LARGEST = 4 << 20
"""Where a run without lists of sizes ends, in bytes."""
_FIRST_DECIMAL = 2018
_BANDWIDTH = "Mbytes/sec"
_WIDTH = 13
"""Of every column."""


def metrics_of(table: PrintedTable) -> tuple[tuple[str, str], ...]:
    """Return the metrics of a table, each with the column that has it.

    Of more than two processes no bandwidth and no message rate is taken: the program adds up all
    pairs.
    """
    section = SECTIONS.get(table.title)
    if section is None or not has_columns_of(section, table):
        return ()  # also tables of IMB-P2P, which has other columns
    pair = table.facts.get("processes") == "2"
    decimal = int(table.version[:4]) >= _FIRST_DECIMAL if table.version[:4].isdecimal() else False
    return tuple(
        (metric, column)
        for metric, column in section.reads
        if column.startswith("t") or (pair and (decimal or column != _BANDWIDTH))
    )


def has_columns_of(section: Section, table: PrintedTable) -> bool:
    """Return True where a table has the columns of its section, and may count defects."""
    return tuple(name for name in table.columns if name != "defects") == section.columns


def may_be_cut(table: PrintedTable) -> str:
    """Return the sign that a table may have been cut, empty when there is none."""
    sized = "#bytes" in table.columns and table.rows
    if table.ended or not sized or table.rows[-1].size >= _LARGEST:
        return ""
    return f"nothing follows the size {table.rows[-1].size}; a run without lists ends at {_LARGEST}"


class ImbMpi1(Value, kw_only=False):
    """The member of the family; see `stackproof.bench.programs.Benchmark`."""

    name: str = "IMB-MPI1"

    def problems(self, case: Case) -> tuple[str, ...]:
        """Return the parts of a case that this program cannot do, in words."""
        host = "IMB-MPI1 sends from the host's memory; ask for stackproof-bench or OSU's programs"
        return (*_problems(case), *((host,) if case.memory else ()))

    def argv(self, program: str, case: Case) -> tuple[str, ...]:
        """Return the command line of one rank.

        `-iter` takes the repetitions of small messages and, after the comma, the MiB that one size
        may move: a size has min(repetitions, MiB / size) of them, at least one. The time limit is
        that of the launch; a smaller one makes the program leave sizes out.
        """
        sizes = ",".join(str(size) for size in sorted(set(case.sizes)))
        return (
            program,
            "-npmin", str(len(case.placement.ranks)),
            "-iter", f"{50 * case.samples},{case.samples}",
            "-time", f"{case.timeout_s:g}",
            "-window_size", str(case.window),
            *(("-msgsize", sizes) if sizes else ()),
            *_titles(case),
        )  # fmt: skip

    def parse(self, stdout: bytes, case: Case) -> Output:
        """Return the results that the program printed; never raises.

        A row counts only when it is written exactly as the program writes it, at its place in a
        table that is whole, as are all tables before it.
        """
        printed = tables.read(stdout.decode(errors="replace"))
        titles, one_world = _titles(case), len(printed.versions) == 1
        asked = [table for table in printed.tables if table.title in titles and table.columns]
        whole = _whole_tables(asked, printed, case) if one_world else []
        results = [result for table in whole for result in _results(table, case)]
        garbage = [line for line in printed.garbage if not line.startswith("#")]
        return Output(
            program=self.name,
            program_version=printed.versions[0] if printed.versions else "",
            world_size=max((_processes_of(table) for table in asked), default=0),
            worlds=len(printed.versions),
            series=tuple(series for _, obstacle, series in results if not obstacle),
            complete=one_world and printed.ends == 1 and len(whole) == len(titles),
            garbage=(*garbage, *(fault.text for table in asked for fault in table.faults)),
            skipped={
                f"{series.benchmark} {wanted}": obstacle
                for wanted, obstacle, series in results
                if obstacle
            },
        )


BENCHMARK = ImbMpi1()


def _titles(case: Case) -> tuple[str, ...]:
    names = [_SECTION_OF[name] for name in case.benchmarks if name in _SECTION_OF]
    return tuple(dict.fromkeys(names))


def _problems(case: Case) -> Iterator[str]:
    ranks = len(case.placement.ranks)
    unknown = f"IMB-MPI1 has no benchmark for `{{name}}`; it has: {', '.join(_SECTION_OF)}"
    yield from basic_problems(case, _SECTION_OF, unknown)
    if ranks > 2 and {"bandwidth", "bibandwidth"} & set(case.benchmarks):
        yield "IMB-MPI1 adds up the bandwidth of all pairs; use a placement of two ranks"
    if case.validate:
        yield "IMB-MPI1 as it is shipped does not check what it receives"
    if any(not 0 <= size < 2**31 for size in case.sizes):
        yield f"a message size must be between 0 and {2**31 - 1} bytes"
    if case.window < 1 or case.samples < 1:
        yield "window and number of samples must be at least 1"


def _processes_of(table: PrintedTable) -> int:
    return int(table.facts["processes"]) + int(table.facts.get("waiting", "0"))


def _whole_tables(
    asked: Sequence[PrintedTable], printed: ParsedTables, case: Case
) -> list[PrintedTable]:
    """Return the tables that are whole, in the order asked for.

    Lost lines can join the rows of one table to those of the next, and two tables can look
    alike. So a table counts only when it is full and what must follow it (the next table, or
    the last line of the program) does follow it.
    """
    titles, printed_titles = _titles(case), tuple(table.title for table in asked)
    whole: list[PrintedTable] = []
    for place, (title, table) in enumerate(zip(titles, asked, strict=False), 1):
        if place < len(titles):
            followed = printed_titles[place : place + 1] == titles[place : place + 1]
        else:
            followed = printed.ends == 1 and len(asked) == len(titles)
        if table.title != title or not followed or not _is_full(table, case):
            break
        whole.append(table)
    return whole


def _is_full(table: PrintedTable, case: Case) -> bool:
    """Return whether a table has a row for each size asked for, as the program writes them.

    It right-aligns each column, so a line that lost a character, or got one too many, is of another
    width.
    """
    wanted = _sizes(table, case)
    return (
        table.columns == SECTIONS[table.title].columns
        and not (table.faults or table.reason)
        and table.width == _WIDTH * len(table.columns)
        and len(table.rows) == len(wanted)
        and all(
            _is_at_place(row, size, table.title)
            for row, size in zip(table.rows, wanted, strict=True)
        )
    )


def _sizes(table: PrintedTable, case: Case) -> list[int]:
    """Return the sizes that rows of a table are for; 0 is the one row of a table without sizes."""
    return sorted(set(case.sizes)) if "#bytes" in table.columns else [0]


def _is_at_place(row: TableRow, wanted: int, title: str) -> bool:
    """Return whether a row is that of a size.

    Reductions are of MPI_FLOAT, and the program rounds their sizes to whole numbers of it.
    """
    rounded = title == "Allreduce" and wanted % _FLOAT_BYTES != 0
    return wanted == row.size or (rounded and abs(wanted - row.size) < _FLOAT_BYTES)


def _results(table: PrintedTable, case: Case) -> Iterator[tuple[int, str, Series]]:
    """Yield the sizes asked for, why what was measured is no result or nothing, and the result.

    Why is in the words of our own program.
    """
    for benchmark, column in SECTIONS[table.title].reads:
        if benchmark not in case.benchmarks:
            continue
        metric = CORE[benchmark]
        slowest = case.timing == Timing.SYNCHRONISED and column == _MEAN
        for wanted, row in zip(_sizes(table, case), table.rows, strict=True):
            value, mean = row.values[_SLOWEST if slowest else column], row.values.get(_MEAN)
            obstacle = "" if value else "clock-too-coarse"
            if wanted != row.size:
                obstacle = "granularity"
            elif metric.sized and row.size == 0 and metric.kind not in {"latency", "rate"}:
                obstacle = "too-small"
            yield (
                wanted,
                obstacle,
                Series(
                    benchmark=benchmark,
                    size=row.size,
                    unit=metric.unit,
                    values=(value or 0.0,),
                    iterations=int(row.values["#repetitions"] or 0),
                    timing="" if mean is None else Timing.IMB.value,
                    mean=() if mean is None else (mean,),
                ),
            )
