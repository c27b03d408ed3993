"""IMB-MPI1 of the Intel MPI Benchmarks: how it is called, how its tables are read.

It comes with Intel MPI and is a second opinion on our own program. It prints one mean per size, so
each of its series has one value, and with two decimals. Grammar of the output, from the program's
source (github.com/intel/mpi-benchmarks, `src_c/IMB_output.c`) and its 2021.11 release:

    output  = banner , { section } , "# All processes entering MPI_Finalize" ;
    section = rule , "# Benchmarking " name , "# #processes = " n ,
              [ "# ( " k " additional processes waiting in MPI_Barrier)" ] , rule ,
              columns , { row } ;
    row     = integers of width 13 , decimals of width 13 with two places ;

PingPong's `Mbytes/sec` is derived from its time and is not the windowed bandwidth; it is not read.
Uniband and Biband keep a window of messages in flight as OSU does, so they are bandwidth. With more
than two ranks they add up all pairs, which is another quantity than the bandwidth of one pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

from stackproof.bench.programs import stray_output
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

_BANNER = re.compile(r"# +Intel\(R\) MPI Benchmarks (\S+), MPI-1 part")
_TITLE = re.compile(r"# Benchmarking (\S+) ?")
_PROCESSES = re.compile(r"# #processes = (\d{1,9}) ?")
_WAITING = re.compile(r"# \( (\d{1,9}) additional process(?:es)? waiting in MPI_Barrier\)")
_RULE = re.compile(r"#-+")
_LAST = "# All processes entering MPI_Finalize"


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
        reader = _Reader(case)
        for line in stdout.decode(errors="replace").split("\n"):
            reader.take(stray_output.without_label(line))
        one_world = len(reader.versions) == 1
        return Output(
            program=self.name,
            program_version=reader.versions[0] if reader.versions else "",
            world_size=reader.world_size,
            worlds=len(reader.versions),
            series=tuple(reader.series()) if one_world else (),
            complete=one_world and reader.ends == 1 and not reader.missing(),
            garbage=reader.garbage.lines,
            skipped=reader.skipped() if one_world else {},
        )


BENCHMARK = ImbMpi1()


def _titles(case: Case) -> tuple[str, ...]:
    names = [_SECTION_OF[name] for name in case.benchmarks if name in _SECTION_OF]
    return tuple(dict.fromkeys(names))


def _problems(case: Case) -> Iterator[str]:
    ranks = len(case.placement.ranks)
    for name in case.benchmarks:
        if name not in _SECTION_OF:
            yield f"IMB-MPI1 has no benchmark for `{name}`; it has: {', '.join(_SECTION_OF)}"
    if not case.benchmarks:
        yield "no benchmark is asked for"
    if ranks < 2:
        yield f"the placement has {ranks} ranks; at least two are needed"
    if ranks > 2 and {"bandwidth", "bibandwidth"} & set(case.benchmarks):
        yield "IMB-MPI1 adds up the bandwidth of all pairs; use a placement of two ranks"
    if case.validate:
        yield "IMB-MPI1 as it is shipped does not check what it receives"
    if any(not 0 <= size < 2**31 for size in case.sizes):
        yield f"a message size must be between 0 and {2**31 - 1} bytes"
    if not case.sizes and any(n in CORE and CORE[n].sized for n in case.benchmarks):
        yield "no message size is asked for"
    if case.window < 1 or case.samples < 1:
        yield "window and number of samples must be at least 1"


class _Table(Struct):
    """The rows of one section, in the order they came."""

    title: str
    processes: int = 0
    waiting: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)
    broken: bool = False


class _Reading(Value):
    """One number of a row; `wanted` is the size asked for, `size` the one that was measured."""

    benchmark: str
    wanted: int
    size: int
    value: float
    mean: float | None
    iterations: int

    @property
    def obstacle(self) -> str:
        """Return why this is no result, in the words of our own program; empty when it is one."""
        metric = CORE[self.benchmark]
        if self.wanted != self.size:
            return "granularity"
        if metric.sized and self.size == 0 and metric.kind not in {"latency", "rate"}:
            return "too-small"
        return "" if self.value > 0 else "clock-too-coarse"


class _Reader:
    """Reads line by line; `_step` is what the header of a table has shown so far."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.versions: list[str] = []
        self.ends = 0
        self.tables: list[_Table] = []
        self.garbage = stray_output.Garbage()
        self._table: _Table | None = None
        self._step = ""

    def take(self, line: str) -> None:
        """Take one line, without its end."""
        if line.startswith("#"):
            self._comment(line.rstrip())
        elif not line.strip():
            if self._step == "rows":
                self._leave()
        elif self._table and self._step == "rule" and self._is_columns(line):
            self._step = "rows"
        elif not (self._step == "rows" and self._row(line)):
            self.garbage.add(line)

    @property
    def world_size(self) -> int:
        """Return the largest number of ranks that a table names."""
        return max((t.processes + t.waiting for t in self.tables), default=0)

    def series(self) -> Iterator[Series]:
        """Yield a series for each result that was asked for, in the order of the tables."""
        for found in self._readings():
            if not found.obstacle:
                yield Series(
                    benchmark=found.benchmark,
                    size=found.size,
                    unit=CORE[found.benchmark].unit,
                    values=(found.value,),
                    iterations=found.iterations,
                    timing="" if found.mean is None else Timing.IMB.value,
                    mean=() if found.mean is None else (found.mean,),
                )

    def skipped(self) -> dict[str, str]:
        """Return why rows that came are no results."""
        return {
            f"{found.benchmark} {found.wanted}": found.obstacle
            for found in self._readings()
            if found.obstacle
        }

    def _readings(self) -> Iterator[_Reading]:
        for table in self._good_tables():
            for benchmark, column in SECTIONS[table.title].reads:
                if benchmark not in self.case.benchmarks:
                    continue
                for wanted, row in zip(self._expected(table.title), table.rows, strict=False):
                    size = int(row.get("#bytes", 0))
                    slowest = self.case.timing == Timing.SYNCHRONISED and column == _MEAN
                    yield _Reading(
                        benchmark=benchmark,
                        wanted=size if wanted is None else wanted,
                        size=size,
                        value=row[_SLOWEST if slowest else column],
                        mean=row.get(_MEAN),
                        iterations=int(row["#repetitions"]),
                    )

    def missing(self) -> bool:
        """Return whether a table or a row that was asked for did not come."""
        return len(self._good_tables()) != len(_titles(self.case))

    def _good_tables(self) -> list[_Table]:
        """Return the tables that are whole, in the order asked for.

        Lost lines can join the rows of one table to those of the next, and two tables can look
        alike. So a table counts only when it is full and what must follow it (the next table, or
        the last line of the program) does follow it.
        """
        titles = _titles(self.case)
        good: list[_Table] = []
        for place, (title, table) in enumerate(zip(titles, self.tables, strict=False)):
            full = len(table.rows) == len(self._expected(title))
            if place + 1 < len(titles):
                after = self.tables[place + 1 : place + 2]
                followed = bool(after) and after[0].title == titles[place + 1]
            else:
                followed = self.ends == 1 and len(self.tables) == len(titles)
            if table.title != title or table.broken or not full or not followed:
                break
            good.append(table)
        return good

    def _comment(self, line: str) -> None:
        banner, title = _BANNER.fullmatch(line), _TITLE.fullmatch(line)
        processes, waiting = _PROCESSES.fullmatch(line), _WAITING.fullmatch(line)
        if banner:
            self.versions.append(banner[1])
            self._leave()
        elif title:
            self._leave()
            if title[1] in _titles(self.case):
                self._table = _Table(title=title[1])
                self._step = "title"
        elif processes and self._table and self._step == "title":
            self._table.processes = int(processes[1])
            self._step = "processes"
        elif waiting and self._table and self._step == "processes":
            self._table.waiting = int(waiting[1])
        elif _RULE.fullmatch(line) and self._step == "processes":
            self._step = "rule"
        else:
            self.ends += line == _LAST
            self._leave()

    def _leave(self) -> None:
        self._table = None
        self._step = ""

    def _is_columns(self, line: str) -> bool:
        table = self._table
        if table is None or tuple(line.split()) != SECTIONS[table.title].columns:
            return False
        self.tables.append(table)
        return True

    def _expected(self, title: str) -> list[int | None]:
        if "#bytes" not in SECTIONS[title].columns:
            return [None]
        return [*sorted(set(self.case.sizes))]

    def _row(self, line: str) -> bool:
        """Take a row; return False when the line is not one as the program writes it."""
        table = self._table
        if table is None:
            return False
        columns = SECTIONS[table.title].columns
        words = line.split()
        if len(words) != len(columns):
            return False
        values: dict[str, float] = {}
        for column, word in zip(columns, words, strict=True):
            whole = column.startswith("#") or column == "Msg/sec"
            if not re.fullmatch(r"\d{1,15}" if whole else r"\d{1,12}\.\d\d", word):
                return False
            values[column] = float(word)
        # The program right-aligns each column to 13 characters: a line that lost a character, or
        # got one too many, is not the same when it is written again.
        if "".join(f"{word:>13}" for word in words) != line.rstrip("\r"):
            return False
        table.broken |= not self._in_order(table, values)
        table.rows.append(values)
        return True

    def _in_order(self, table: _Table, values: dict[str, float]) -> bool:
        """Return whether a row is at its place: sizes go up, each as asked, none twice.

        Reductions are of MPI_FLOAT, and the program rounds their sizes to whole numbers of it.
        """
        expected = self._expected(table.title)
        size = int(values["#bytes"]) if "#bytes" in values else None
        place = len(table.rows)
        if place >= len(expected):
            return False
        wanted = expected[place]
        if wanted is None or size is None:
            return wanted == size
        rounded = table.title == "Allreduce" and wanted % _FLOAT_BYTES != 0
        return wanted == size or (rounded and abs(wanted - size) < _FLOAT_BYTES)
