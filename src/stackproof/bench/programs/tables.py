"""Tables that OSU's programs and IMB-MPI1 print: one reader, for launches here and for files.

A file comes without a case, from copies and with other programs' lines in between. A row is right
or it is rejected: it counts only at its place, below its own title and heading. Grammar, from the
programs' sources (mvapich.cse.ohio-state.edu/benchmarks, `util/osu_util.c`, releases 5.9 to 7.5;
github.com/intel/mpi-benchmarks, `src_c/IMB_output.c`, releases 2018 to 2021.11):

    OSU table = "# OSU " name [ accelerator ] " Test" [ " v" version ] , { comment } , { row } ;
    OSU row   = size , { value } , [ "Pass" | "Fail" ] , { percentile } , [ transmit size ] ;
    IMB table = rule , "# Benchmarking " name , "# #processes = " n ,
                [ "# ( " k " additional processes waiting in MPI_Barrier)" ] , rule ,
                columns , { row } ;
    IMB row   = integers of width 13 , decimals of width 13 with two places ;

The order of OSU's comments differs between releases, the width of columns too, and names of columns
hold spaces: columns are told by a closed list of names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from stackproof.bench.programs import stray_output
from stackproof.core.errors import Reason
from stackproof.core.value import Value, replace

OSU = "OSU"
IMB = "IMB-MPI1"

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+,\d+")

_TITLE = re.compile(
    r"#? ?(?:OSU (?P<osu>\S.*?) Test(?: Test)?(?: v(?P<version>\d[\w.+-]*))?"
    r"|Benchmarking (?P<imb>[A-Z][\w-]*))"
)
_ACCELERATOR = re.compile(r"-(CUDA MANAGED|CUDA|ROCM|OPENACC|MANAGED|CXL)\b")
_BANNER = re.compile(
    r"#? *Intel ?\(R\) MPI Benchmarks (?P<version>\d[^\s,]*+)[^,\n]*+, MPI-1 part.*"
)
_LAST = "# All processes entering MPI_Finalize"
_RULE = re.compile(r"#[-#\s]*")
# Copies lose the `# ` before a comment.
_COMMENTS = tuple(
    re.compile(f"(?:# )?{pattern}")
    for pattern in (
        r"Send Buffer on (?P<send>\w+) \(\w\) and Receive Buffer on (?P<receive>\w+) \(\w\)",
        r"\[ pairs: (?P<pairs>\d{1,6}) \] \[ window size: (?P<window>\w+) \]",
        r"Window creation: (?P<window>\S+)",
        r"Datatype: (?P<datatype>\w+)\.",
        r"#processes = (?P<processes>\d{1,6})",
        r"\( (?P<waiting>\d{1,6}) additional process(?:es)? waiting in MPI_Barrier ?\)",
    )
)
# Names of columns, longest first where one begins another.
_COLUMN = re.compile(
    r"Bandwidth \(MB/s\)|Avg Latency\(us\)|Min Latency\(us\)|Max Latency\(us\)|Latency \(us\)"
    r"|Messages/s|MB/s|Iterations|Overall\(us\)|Compute\(us\)|Coll\. Init\(us\)|MPI_Test\(us\)"
    r"|MPI_Wait\(us\)|Pure Comm\.\(us\)|Min Comm\.\(us\)|Max Comm\.\(us\)|Overlap\(%\)|Validation"
    r"|P\d{1,2} Tail Lat\(us\)|P\d{1,2} Tail BW\(MB/s\)|Transmit Size"
    r"|#?(?:bytes|repetitions)|t\[usec\]|t_(?:min|max|avg|ovrl|pure|CPU)\[usec\]|Mbytes/sec"
    r"|Msg/sec|overlap\[%\]|defects"
)
_OSU_SIZE, _IMB_SIZE = "Size", "#bytes"
_VALIDATION = "Validation"
_WHOLE = {"Iterations", "Transmit Size", "Msg/sec", "defects", _OSU_SIZE}
_DECIMAL = re.compile(r"-?(?:\d{1,15}\.\d\d|inf|nan)")
_IMB_DECIMAL = re.compile(r"\d{1,12}\.\d\d")
_NUMBER = re.compile(r"-?(?:\d{1,15}(?:\.\d{1,6})?|inf|nan)")
_NO_SAMPLE = re.compile(r"(\d+) +(?:out-of-mem\.|int-overflow|time-out\.)(?:;.*)?")
_INVALID = "DATA VALIDATION ERROR:"
_ALONE = re.compile(r"This test requires (?:exactly|at least) (?:two|2)")
# How a program was called, where it or a script says it: where OSU's sizes end, IMB's own sizes.
# Each is looked for from the begin of a line alone: a line may be as long as a file.
_CALL_OSU = re.compile(
    r"(?:(?!\bosu_\w).)*+osu_\w++.*\s-m[ =]?(?:\d{1,12}:)?(?P<largest>\d{1,12})(?!\S)"
)
_CALL_SIZES = re.compile(r"#.*-(?:msglen|msgsize|msg_size)\b")
_CALL_MAP = re.compile(r"#.*-map\b")


class TableRow(Value):
    """One line of a table: `values` by column, None for `inf`, `nan` and words.

    `size` is in bytes, 0 in a table without sizes; `line` counts from 1.
    """

    size: int
    values: Mapping[str, float | None]
    printed: Mapping[str, str]
    line: int


class Fault(Value):
    """A line of a table that does not count, and why."""

    line: int
    text: str
    why: str


class PrintedTable(Value):
    """What stands below one title.

    `program` is `OSU` or `IMB-MPI1`, `version` empty where it is not said; `facts` is what the
    heading says besides (datatype, pairs, processes, …). `reason` is a value of `errors.Reason`
    when no row may be used, with `evidence`; `ended` says that something of the program followed,
    so that the table was not cut. `width` is that of every row, 0 where they differ.
    """

    program: str
    version: str
    title: str
    line: int
    columns: tuple[str, ...] = ()
    rows: tuple[TableRow, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    reason: str = ""
    evidence: str = ""
    ended: bool = False
    accelerator: str = ""
    width: int = 0


class ParsedTables(Value):
    """All tables of a text, and the lines that belong to none.

    `versions` has one for each banner of IMB, `ends` counts its last lines.
    """

    tables: tuple[PrintedTable, ...] = ()
    garbage: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    ends: int = 0


def read(text: str) -> ParsedTables:
    """Return every table of a text; never raises, whatever it is."""
    reader = _Reader()
    for number, raw in enumerate(text.split("\n"), 1):
        label, line = _clean_line(raw)
        reader.take(number, label, line)
    reader.leave(ended=False)
    return ParsedTables(
        tables=tuple(reader.tables),
        garbage=reader.garbage.lines,
        versions=tuple(reader.versions),
        ends=reader.ends,
    )


class _Draft(Struct):
    """A table while it is read; `any_sizes` says that sizes need only rise."""

    table: PrintedTable
    label: str
    facts: dict[str, str]
    any_sizes: bool = False
    columns: tuple[str, ...] = ()
    rows: list[TableRow] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    reason: str = ""
    evidence: str = ""
    gap: bool = False

    @property
    def sized(self) -> bool:
        """Return whether the first column is the size of a message."""
        return self.columns[:1] in ((_OSU_SIZE,), (_IMB_SIZE,))

    def refuse(self, reason: Reason, evidence: str) -> None:
        """Let no row of the table count; the first reason stays."""
        if not self.reason:
            self.reason, self.evidence = reason.value, evidence

    def reject(self, number: int, text: str, why: str) -> None:
        """Leave one line out."""
        self.faults.append(
            Fault(line=number, text=text.strip()[: stray_output.MAX_LENGTH], why=why)
        )

    def add(self, row: TableRow, text: str) -> None:
        """Take a row at its place: sizes double from row to row, none stands twice.

        A list of sizes may have two that are rounded to the same number of elements.
        """
        last = self.rows[-1].size if self.rows else None
        if last is not None and row.size <= last and not (self.any_sizes and row.size == last):
            self.refuse(
                Reason.GARBAGE_OUTPUT,
                f"line {row.line}: the sizes begin again, so rows of another run are among these",
            )
        if self.gap:
            self.reject(row.line, text, "it comes after a gap in the sizes")
        elif last and not self.any_sizes and row.size != 2 * last:
            self.gap = True
            missing = f"a row is missing between {last} and {row.size}"
            strange = f"the size does not follow {last}"
            self.reject(row.line, text, missing if row.size > 2 * last else strange)
        else:
            self.rows.append(row)
            self.raw.append(text)

    def finish(self, *, ended: bool) -> PrintedTable:
        """Return the table; rows of another width than the others are left out."""
        odd = _odd_widths(self.raw)
        for index in odd:
            self.reject(self.rows[index].line, self.raw[index], "it is not as wide as the others")
        rows = [row for index, row in enumerate(self.rows) if index not in odd]
        if not rows:
            self.refuse(Reason.NO_RESULTS, "the table has no row that can be read")
        return replace(
            self.table,
            columns=self.columns,
            rows=tuple(rows),
            facts=self.facts,
            faults=tuple(self.faults),
            reason=self.reason,
            evidence=self.evidence,
            ended=ended,
            width=len(self.raw[0].rstrip()) if self.raw and not odd else 0,
        )


class _Reader:
    """Reads line by line; `_draft` is the table whose title was seen."""

    def __init__(self) -> None:
        self.tables: list[PrintedTable] = []
        self.garbage = stray_output.Garbage()
        self.versions: list[str] = []
        self.ends = 0
        self._draft: _Draft | None = None
        self._alone = 0
        self._call: dict[str, str] = {}
        """What the call of a program says of the tables that follow."""

    def take(self, number: int, label: str, text: str) -> None:
        """Take one line."""
        plain, draft = text.strip(), self._draft
        self.ends += plain == _LAST
        if not plain:
            return
        if title := _TITLE.fullmatch(plain):
            self._begin(number, label, title)
        elif banner := _BANNER.fullmatch(plain):
            self.leave(ended=True)
            self.versions.append(banner["version"])
            self._call = {}
        elif draft is None or label != draft.label:
            self._stray(plain)
        elif columns := _columns(plain):
            if draft.columns or (draft.table.program == IMB and "processes" not in draft.facts):
                # Another heading without a title: which table it is of cannot be told.
                self.leave(ended=True)
            else:
                draft.columns = columns
        elif plain.startswith("#") or _facts_of(plain):
            self._comment(draft, plain)
        elif not self._row(draft, number, text):
            self._stray(plain)

    def _begin(self, number: int, label: str, title: re.Match[str]) -> None:
        before, imb = self._draft, bool(title["imb"])
        accelerator = _ACCELERATOR.search(title[0])
        name = _ACCELERATOR.sub("", title["osu"] or title["imb"]).strip()
        self.leave(ended=True)
        table = PrintedTable(
            program=IMB if imb else OSU,
            title=name,
            line=number,
            version=(self.versions[-1] if self.versions else "") if imb else title["version"] or "",
            accelerator=accelerator[1] if accelerator else "",
        )
        own = "map" if imb else "largest"
        facts = {key: text for key, text in self._call.items() if key == own}
        draft = _Draft(table, label, facts, any_sizes=imb and "sizes" in self._call)
        self._call.pop("largest", None)
        self._draft = draft
        if before is not None and not imb and not before.rows and before.table.title == name:
            draft.refuse(Reason.SINGLETONS, f"`{name}` begins twice without a row in between")

    def _comment(self, draft: _Draft, plain: str) -> None:
        facts = _facts_of(plain)
        late = bool(draft.rows or (draft.columns and draft.table.program == IMB))
        if late or facts.keys() & draft.facts.keys():
            # It is of a table whose title was lost, so nothing below it counts.
            self.leave(ended=bool(facts or plain == _LAST or _RULE.fullmatch(plain)))
        else:
            draft.facts |= facts
        if not facts:
            self._stray(plain)

    def _stray(self, plain: str) -> None:
        """Keep a line that is of no table; some say what became of the tables around it."""
        self.garbage.add(plain)
        draft = self._draft
        if draft is not None and _INVALID in plain:
            draft.refuse(Reason.VALIDATION_FAILED, plain)
        if _ALONE.search(plain):
            self._alone += 1
            if draft is not None and self._alone > 1:
                evidence = f"{self._alone} programs say that they are alone in their world"
                draft.refuse(Reason.SINGLETONS, evidence)
        if call := _CALL_OSU.match(plain):
            self._call["largest"] = call["largest"]
        if _CALL_SIZES.match(plain):
            self._call["sizes"] = "given"
        if _CALL_MAP.match(plain):
            self._call["map"] = "given"

    def _row(self, draft: _Draft, number: int, text: str) -> bool:
        words = text.split()
        lacking = _NO_SAMPLE.fullmatch(text.strip())
        if lacking and draft.columns:
            draft.reject(number, text, f"the program has no sample of {lacking[1]} bytes")
            return True
        if not draft.columns and len(words) > 1 and all(map(_NUMBER.fullmatch, words)):
            # The heading was lost: what follows may be another table, without its title.
            self.leave(ended=False)
        if not draft.columns or (draft.sized and not words[0].isdecimal()):
            return False
        printed = dict(zip(draft.columns, words, strict=False))
        if len(words) != len(draft.columns) or not all(map(_fits, printed, printed.values())):
            if not all(re.match(r"[-\d]", word) for word in words):
                return False
            draft.reject(number, text, _why_no_row(draft.columns, words))
            return True
        if printed.get(_VALIDATION) == "Fail":
            draft.refuse(Reason.VALIDATION_FAILED, f"line {number}: `{text.strip()}`")
        values = {
            name: None if word.lstrip("-") in {"inf", "nan"} else float(word)
            for name, word in printed.items()
            if name not in {_OSU_SIZE, _IMB_SIZE, _VALIDATION}
        }
        size = int(words[0]) if draft.sized else 0
        draft.add(TableRow(size=size, values=values, printed=printed, line=number), text)
        return True

    def leave(self, *, ended: bool) -> None:
        """End the table that is being read."""
        if self._draft is not None:
            self.tables.append(self._draft.finish(ended=ended))
        self._draft = None


def _clean_line(raw: str) -> tuple[str, str]:
    """Return label and rest of a line: no colours, no label of a launcher.

    How deep a line is quoted (`> `, in messages and threads) belongs to its label. A forum
    may have put a backslash before a `#`.
    """
    line = _COLOUR.sub("", raw)
    quote = _QUOTE.match(line)
    depth = quote[0].count(">") if quote else 0
    label, rest = stray_output.split_label(line[quote.end() :] if quote else line)
    if rest.lstrip().startswith("\\#"):
        rest = rest.replace("\\#", "#", 1)
    return f"{'>' * depth}{label}", rest


def _facts_of(plain: str) -> dict[str, str]:
    """Return what a comment says of its table, by names of facts; empty when it is none."""
    matches = (pattern.fullmatch(plain) for pattern in _COMMENTS)
    return next((match.groupdict() for match in matches if match), {})


def _columns(plain: str) -> tuple[str, ...]:
    """Return the columns that a heading names, empty when it is no heading."""
    rest = plain.removeprefix("#").strip()
    names: list[str] = []
    if re.match(r"Size\b", rest):
        names, rest = [_OSU_SIZE], rest.removeprefix(_OSU_SIZE).strip()
    while rest:
        match = _COLUMN.match(rest)
        if match is None:
            return ()
        names.append(f"#{match[0]}" if match[0] in {"bytes", "repetitions"} else match[0])
        rest = rest[match.end() :].lstrip()
    return () if names == [_OSU_SIZE] else tuple(names)


def _fits(name: str, word: str) -> bool:
    """Return whether a word is what the program prints in a column."""
    if name == _VALIDATION:
        return word in {"Pass", "Fail"}
    if name in _WHOLE or name.startswith("#"):
        return bool(re.fullmatch(r"\d{1,15}", word))
    imb = "[" in name or name == "Mbytes/sec"
    return bool((_IMB_DECIMAL if imb else _DECIMAL).fullmatch(word))


def _why_no_row(columns: Sequence[str], words: Sequence[str]) -> str:
    """Return why a line of numbers is no row, in words."""
    if len(words) != len(columns):
        return f"it has {len(words)} values and the heading has {len(columns)}"
    if any(_GROUPED.fullmatch(word) for word in words):
        return "numbers with commas or grouped digits are not read: which is meant is not certain"
    return "it is not a row as the program prints it"


def _odd_widths(lines: Sequence[str]) -> frozenset[int]:
    """Return which lines of a table were not printed with the others' width.

    Programs align their columns, so a line that lost a character is shorter. Where every line has
    single spaces, a copy has lost the alignment, and nothing can be said.
    """
    texts = [line.rstrip() for line in lines]
    if all("  " not in text.strip() for text in texts):
        return frozenset()
    (width, count), *_ = Counter(map(len, texts)).most_common(1)
    if count <= len(texts) // 2:
        return frozenset(range(len(texts)))
    return frozenset(index for index, text in enumerate(texts) if len(text) != width)
