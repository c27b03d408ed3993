"""OSU micro-benchmarks: what releases 5 to 7.5 have printed, read from a file.

Grammar, from the program's sources (mvapich.cse.ohio-state.edu/benchmarks, `util/osu_util.c` and
`util/osu_util_mpi.c`) and from published output:

    block  = "# OSU " name [ accelerator ] " Test" [ " v" version ] , { comment } , { row } ;
    row    = size , { value } , [ "Pass" | "Fail" ] , { percentile } , [ transmit size ] ;

The order of the comments differs between releases, the width of columns too, and names of columns
hold spaces: columns are told by a closed list of names. MB is 10^6 bytes; a latency is half of a
round trip.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stackproof.bench.programs import stray_output, tables
from stackproof.bench.programs.tables import Draft, ParsedTables, PrintedTable, TableRow
from stackproof.core.errors import Reason
from stackproof.core.value import Value
from stackproof.results.metrics import METRICS

PROGRAM = "OSU"

_TITLE = re.compile(r"#? ?OSU (?P<name>\S.*?) Test(?: Test)?(?: v(?P<version>\d[\w.+-]*))?\s*")
_ACCELERATOR = re.compile(r"-(CUDA MANAGED|CUDA|ROCM|OPENACC|MANAGED|CXL)\b")
_BUFFERS = re.compile(
    r"# Send Buffer on (HOST|DEVICE|MANAGED) \([HDM]\) and Receive Buffer on "
    r"(HOST|DEVICE|MANAGED) \([HDM]\)\s*"
)
_PAIRS = re.compile(r"# \[ pairs: (\d+) \] \[ window size: (\w+) \]\s*")
_DATATYPE = re.compile(r"# Datatype: (\w+)\.\s*")
_COMMENTS = (
    re.compile(r"# Window creation: (?P<window>\S+)\s*"),
    re.compile(r"# Synchronization: (?P<synchronization>\S+)\s*"),
    re.compile(r"# (?P<memory>Rank 0 Memory on .+ and Rank 1 Memory on .+?)\s*"),
    re.compile(r"# (?P<overall>Overall = .+?)\s*"),
)
# Names of columns, longest first where one begins another.
_COLUMN = re.compile(
    r"Bandwidth \(MB/s\)|Avg Latency\(us\)|Min Latency\(us\)|Max Latency\(us\)|Latency \(us\)"
    r"|Messages/s|MB/s|Iterations|Overall\(us\)|Compute\(us\)|Coll\. Init\(us\)|MPI_Test\(us\)"
    r"|MPI_Wait\(us\)|Pure Comm\.\(us\)|Min Comm\.\(us\)|Max Comm\.\(us\)|Overlap\(%\)|Validation"
    r"|P\d{1,2} Tail Lat\(us\)|P\d{1,2} Tail BW\(MB/s\)|Transmit Size"
)
_SIZE = "Size"
# How a test was called, where a script printed it: where its sizes end.
_CALL = re.compile(r"\bosu_\w+\b.*\s-m[ =]?(?:\d{1,12}:)?(?P<largest>\d{1,12})(?!\S)")
_INVALID = "DATA VALIDATION ERROR:"
_ALONE = re.compile(r"This test requires (?:exactly two|at least two|exactly 2|at least 2)")
_INIT = re.compile(
    r"nprocs: (?P<nprocs>\d+), min: (?P<min>\d+) ms, max: (?P<max>\d+) ms, avg: (?P<avg>\d+) ms\s*"
)
_DECIMAL = re.compile(r"-?(?:\d{1,15}\.\d\d|inf|nan)")
_WHOLE = {"Iterations", "Transmit Size"}

# Titles of tests between pairs, in small letters and without signs; of the others the title has
# the name of the operation.
_PAIRS_OF = {
    "latency": "latency", "bandwidth": "bandwidth", "bi directional bandwidth": "bibandwidth",
    "multiple bandwidth message rate": "message_rate", "multi latency": "multi_lat",
    "multi threaded latency": "latency_mt", "multi process latency": "latency_mp",
    "latency persistent": "latency_persistent", "bandwidth persistent": "bw_persistent",
    "bi directional bandwidth persistent": "bibw_persistent",
    "partitioned latency": "partitioned_latency", "put latency": "put_latency",
    "get latency": "get_latency", "accumulate latency": "acc_latency",
    "get accumulate latency": "get_acc_latency", "compare and swap latency": "cas_latency",
    "fetch and op latency": "fop_latency", "put bandwidth": "put_bw", "get bandwidth": "get_bw",
    "put bi directional bandwidth": "put_bibw",
}  # fmt: skip
_WORDS = (
    ("personalized exchange ", ""), ("latency", ""), ("neighborhood", "neighbor"),
    ("all to all", "alltoall"), ("broadcast", "bcast"),
)  # fmt: skip
# Columns that may hold what a test measures, the first that there is.
VALUE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "latency": ("Avg Latency(us)", "Latency (us)"),
    "collective": ("Avg Latency(us)", "Overall(us)"),
    "bandwidth": ("Bandwidth (MB/s)",),
    "rate": ("Messages/s",),
}
_ONE_SIZE = ("barrier", "cas_latency", "fop_latency")


def benchmark_of(title: str) -> str:
    """Return the name in `METRICS` of a test's title, empty for one that nothing here measures.

    Releases differ in small and large letters, in signs (`All-to-Allv`, `Alltoallv`) and in words
    (`Neighbor`, `Neighborhood`; `Personalized Exchange` or not).
    """
    words = " ".join(re.findall(r"[a-z]+", title.casefold())).removeprefix("mpi ")
    if words in _PAIRS_OF:
        return _PAIRS_OF[words]
    for text, short in _WORDS:
        words = words.replace(text, short)
    begin = "i" if words.startswith("non blocking ") else ""
    name = begin + "_".join(words.removeprefix("non blocking ").split())
    return name if name in METRICS and "latency" in title.casefold() else ""


def column_of(table: PrintedTable, benchmark: str) -> str:
    """Return the column with what a benchmark measures, empty where the table has none."""
    names = VALUE_COLUMNS[METRICS[benchmark].kind]
    return next((name for name in names if name in table.columns), "")


def metric_of(table: PrintedTable) -> tuple[str, str] | None:
    """Return the metric of a table and the column that has it, None when it is none of ours."""
    benchmark = benchmark_of(table.title)
    column = column_of(table, benchmark) if benchmark else ""
    return (benchmark, column) if column else None


def may_be_cut(table: PrintedTable) -> str:
    """Return the sign that a table may have been cut, empty when there is none."""
    benchmark, _ = metric_of(table) or ("", "")
    if not table.rows or not benchmark or any(name in benchmark for name in _ONE_SIZE):
        return ""
    # Where a run without `-m` ends, in bytes.
    usual = (1 if METRICS[benchmark].kind in {"collective", "rate"} else 4) << 20
    largest, last = int(table.facts.get("largest", usual)), table.rows[-1].size
    call = (
        f"it was called with `-m {largest}`"
        if "largest" in table.facts
        else (f"a run without `-m` ends at {largest}")
    )
    return "" if last >= largest else f"the last size is {last}; {call}"


def read(text: str) -> ParsedTables:
    """Return every table of a text; never raises, whatever it is."""
    reader = _Reader()
    for number, label, line in tables.clean_lines(text):
        reader.take(number, label, line)
    reader.leave(ended=False)
    return ParsedTables(tables=tuple(reader.tables), garbage=reader.garbage.lines)


class _Line(Value, kw_only=False):
    number: int
    label: str
    text: str


class _Reader:
    """Reads line by line; `_draft` is the table whose title was seen."""

    def __init__(self) -> None:
        self.tables: list[PrintedTable] = []
        self.garbage = stray_output.Garbage()
        self._draft: Draft | None = None
        self._alone = 0
        self._largest = ""

    def take(self, number: int, label: str, text: str) -> None:
        """Take one line."""
        line = _Line(number, label, text)
        title = _TITLE.fullmatch(text.strip())
        draft = self._draft
        if title:
            self._title(line, title)
        elif not text.strip():
            return
        elif _INVALID in text:
            if draft is not None:
                draft.refuse(Reason.VALIDATION_FAILED, text.strip())
            self.garbage.add(text)
        elif _ALONE.search(text):
            self._alone += 1
            self.garbage.add(text)
            self._singletons(draft)
        elif call := _CALL.search(text):
            self._largest = call["largest"]
            self.garbage.add(text)
        elif draft is None or label != draft.label:
            self.garbage.add(text)
        elif comment := _comment_of(text):
            self._comment(draft, _Line(number, label, comment))
        elif not self._row(draft, line):
            self.garbage.add(text)

    def _singletons(self, draft: Draft | None) -> None:
        if self._alone > 1 and draft is not None:
            draft.refuse(
                Reason.SINGLETONS, f"{self._alone} programs say that they are alone in their world"
            )

    def _title(self, line: _Line, title: re.Match[str]) -> None:
        name = title["name"]
        accelerator = _ACCELERATOR.search(name)
        plain = _ACCELERATOR.sub("", name).strip()
        before = self._draft
        twice = before is not None and not before.rows and before.title == plain
        self.leave(ended=True)
        self._draft = Draft(
            program=PROGRAM,
            title=plain,
            line=line.number,
            label=line.label,
            version=title["version"] or "",
            accelerator=accelerator[1] if accelerator else "",
            facts={"largest": self._largest} if self._largest else {},
        )
        self._largest = ""
        if twice:
            self._draft.refuse(
                Reason.SINGLETONS, f"`{plain}` begins twice without a row in between"
            )

    def _comment(self, draft: Draft, line: _Line) -> None:
        columns = _columns(line.text)
        datatype, pairs = _DATATYPE.fullmatch(line.text), _PAIRS.fullmatch(line.text)
        buffers = _BUFFERS.fullmatch(line.text)
        if columns and not draft.columns and not draft.rows:
            draft.columns = columns
        elif draft.rows or columns:
            # Another heading without a title: `-T all`, or a title that was lost. Which of them
            # cannot be told, so nothing below it counts.
            self.garbage.add(line.text)
            self.leave(ended=bool(columns))
        elif datatype and "datatype" in draft.facts:
            self.leave(ended=False)  # of another table, whose title was lost
        elif datatype:
            draft.facts["datatype"] = datatype[1]
        elif pairs:
            draft.facts |= {"pairs": pairs[1], "window": pairs[2]}
        elif buffers:
            draft.facts |= {"send-buffer": buffers[1].lower(), "receive-buffer": buffers[2].lower()}
        else:
            said = [match for one in _COMMENTS if (match := one.fullmatch(line.text))]
            for match in said:
                draft.facts |= match.groupdict()
            if not said:
                self.garbage.add(line.text)

    def _row(self, draft: Draft, line: _Line) -> bool:
        words = line.text.split()
        init = _INIT.fullmatch(line.text.strip())
        if init and "Init" in draft.title:
            draft.columns = draft.columns or ("min(ms)", "max(ms)", "avg(ms)")
            printed = {f"{key}(ms)": init[key] for key in ("min", "max", "avg")}
            draft.facts["processes"] = init["nprocs"]
            values = {key: float(word) for key, word in printed.items()}
            draft.add(TableRow(size=0, values=values, printed=printed, line=line.number), line.text)
            return True
        sized = draft.columns[:1] == (_SIZE,)
        if not draft.columns or not words or (not words[0].isdecimal() and sized):
            if not draft.columns and tables.is_row(words):
                # The heading was lost: what follows may be another table, without its title.
                self.leave(ended=False)
            return False
        printed = dict(zip(draft.columns, words, strict=False))
        if len(words) != len(draft.columns) or not all(map(_fits, printed, printed.values())):
            if all(re.match(r"[-\d]", word) for word in words):
                why = tables.why_no_number(words)
                if len(words) != len(draft.columns):
                    why = f"it has {len(words)} values and the heading has {len(draft.columns)}"
                draft.reject(line.number, line.text, why)
                return True
            return False
        if printed.get("Validation") == "Fail":
            draft.refuse(Reason.VALIDATION_FAILED, f"line {line.number}: `{line.text.strip()}`")
        values_of = {
            name: tables.number(word)
            for name, word in printed.items()
            if name not in {_SIZE, "Validation"}
        }
        size = int(printed[_SIZE]) if sized else 0
        draft.add(
            TableRow(size=size, values=values_of, printed=printed, line=line.number), line.text
        )
        return True

    def leave(self, *, ended: bool) -> None:
        """End the table that is being read."""
        if self._draft is not None:
            self.tables.append(self._draft.finish(ended=ended))
        self._draft = None


def _comment_of(text: str) -> str:
    """Return a line that is a comment, with the `#` that copies lose; empty when it is none."""
    plain = text.strip()
    if plain.startswith("#"):
        return plain
    marked = f"# {plain}"
    known = (_DATATYPE, _PAIRS, _BUFFERS, *_COMMENTS)
    return marked if _columns(marked) or any(one.fullmatch(marked) for one in known) else ""


def _columns(text: str) -> tuple[str, ...]:
    """Return the columns that a heading names, empty when it is no heading."""
    rest = text.removeprefix("#").strip()
    names: list[str] = []
    if re.match(r"Size\b", rest):
        names, rest = [_SIZE], rest.removeprefix(_SIZE).strip()
    while rest:
        match = _COLUMN.match(rest)
        if match is None:
            return ()
        names.append(match[0])
        rest = rest[match.end() :].lstrip()
    return () if names == [_SIZE] else tuple(names)


def _fits(name: str, word: str) -> bool:
    """Return whether a word is what the program prints in a column."""
    if name == _SIZE:
        return bool(re.fullmatch(r"\d{1,12}", word))
    if name == "Validation":
        return word in {"Pass", "Fail"}
    if name in _WHOLE:
        return bool(re.fullmatch(r"\d{1,15}", word))
    return bool(_DECIMAL.fullmatch(word))
