"""IMB-MPI1: what releases 4.1 to 2021.11 have printed, read from a file.

`imb.py` reads what was asked for, where every row is known beforehand; here nothing is. Grammar,
from the program's source (github.com/intel/mpi-benchmarks, `src_c/IMB_output.c`):

    section = rule , "# Benchmarking " [ "Multi-" ] name ,
              ( "# #processes = " n | "# ( " g " groups of " n " processes each running …" ) ,
              [ "# ( " k " additional processes waiting in MPI_Barrier)" ] , rule ,
              [ "#" , "#    MODE: " mode , "#" ] , columns , { row } ;

One file has runs of 2, 4, 8, … processes one after the other: a table is told by its title,
processes, groups and mode. Zero bytes is a size. MB is 10^6 bytes since release 2018; of older
output, or output without a version, no bandwidth is taken.
"""

from __future__ import annotations

import re

from stackproof.bench.programs import imb, stray_output, tables
from stackproof.bench.programs.tables import Draft, ParsedTables, PrintedTable, TableRow

PROGRAM = "IMB-MPI1"

_BANNER = re.compile(
    r"#? *Intel ?\(R\) MPI Benchmarks (?P<version>\d[^\s,]*+)[^,\n]*+, MPI-1 part.*"
)
_CALL = re.compile(r"#.*-(?:msglen|msgsize|msg_size)\b.*")
_MAP = re.compile(r"#.*-map\b.*")
_TITLE = re.compile(r"#? ?Benchmarking (?P<name>[A-Z][\w-]*)\s*")
_HEADING = (
    re.compile(r"# #processes = (?P<processes>\d{1,9})\s*"),
    re.compile(
        r"# \( (?P<groups>\d{1,9}) groups of (?P<processes>\d{1,9}) processes each running "
        r"simultaneous \)\s*"
    ),
    re.compile(
        r"# \( (?P<waiting>\d{1,9}) additional process(?:es)? waiting in MPI_Barrier ?\)\s*"
    ),
    re.compile(r"# +MODE: (?P<mode>(?:NON-)?AGGREGATE)\s*"),
    re.compile(r"# Group +\d+:[ \d]*"),
    re.compile(r"#[-#\s]*"),
)
_COLUMN = re.compile(
    r"Group|#?bytes|#?repetitions|t\[usec\]|t_(?:min|max|avg|ovrl|pure|CPU)\[usec\]|Mbytes/sec"
    r"|Msg/sec|overlap\[%\]|defects"
)
_NO_SAMPLE = re.compile(r"\s*(?:\d+ +)?(\d+) +(out-of-mem\.|int-overflow|time-out\.)(?:;.*)?")
_LAST = "# All processes entering MPI_Finalize"
_LARGEST = 4 << 20
_FIRST_DECIMAL = 2018
_BANDWIDTH = "Mbytes/sec"


def metrics_of(table: PrintedTable) -> tuple[tuple[str, str], ...]:
    """Return the metrics of a table, each with the column that has it.

    Of more than two processes no bandwidth and no message rate is taken: the program adds up all
    pairs.
    """
    section = imb.SECTIONS.get(table.title)
    if section is None or not has_columns_of(section, table):
        return ()  # also tables of several groups, and those of IMB-P2P, which has other columns
    pair = table.facts.get("processes") == "2"
    decimal = int(table.version[:4]) >= _FIRST_DECIMAL if table.version[:4].isdecimal() else False
    return tuple(
        (metric, column)
        for metric, column in section.reads
        if column in table.columns
        and (column.startswith("t") or (pair and (decimal or column != _BANDWIDTH)))
    )


def has_columns_of(section: imb.Section, table: PrintedTable) -> bool:
    """Return True where a table has the columns of its section, and may count defects."""
    return tuple(name for name in table.columns if name != "defects") == section.columns


def may_be_cut(table: PrintedTable) -> str:
    """Return the sign that a table may have been cut, empty when there is none."""
    sized = "#bytes" in table.columns and table.rows
    if table.ended or not sized or table.rows[-1].size >= _LARGEST:
        return ""
    return f"nothing follows the size {table.rows[-1].size}; a run without lists ends at {_LARGEST}"


def read(text: str) -> ParsedTables:
    """Return every table of a text; never raises, whatever it is."""
    reader = _Reader()
    for number, label, line in tables.clean_lines(text):
        reader.take(number, label, line)
    reader.leave(ended=False)
    return ParsedTables(tables=tuple(reader.tables), garbage=reader.garbage.lines)


class _Reader:
    """Reads line by line; `_draft` is the table whose title was seen."""

    def __init__(self) -> None:
        self.tables: list[PrintedTable] = []
        self.garbage = stray_output.Garbage()
        self._draft: Draft | None = None
        self._version = ""
        self._any_sizes = False
        self._mapped = False

    def take(self, number: int, label: str, text: str) -> None:
        """Take one line."""
        plain = text.strip()
        banner, title = _BANNER.fullmatch(plain), _TITLE.fullmatch(plain)
        draft = self._draft
        if banner:
            self.leave(ended=True)
            self._version = banner["version"].rstrip(",")
            self._any_sizes = self._mapped = False
        elif title:
            self.leave(ended=True)
            self._draft = Draft(
                program=PROGRAM,
                title=title["name"],
                line=number,
                label=label,
                version=self._version,
                any_sizes=self._any_sizes,
                facts={"map": "given"} if self._mapped else {},
            )
        elif not text.strip():
            return
        elif draft is None or label != draft.label:
            self._any_sizes |= bool(_CALL.fullmatch(plain))
            self._mapped |= bool(_MAP.fullmatch(plain))
            self.garbage.add(text)
        elif columns := _columns(text):
            if draft.columns or "processes" not in draft.facts:
                self.leave(ended=True)
            else:
                draft.columns = columns
        elif plain.startswith("#"):
            self._heading(draft, plain)
        elif not self._row(draft, number, text):
            self.garbage.add(text)

    def _heading(self, draft: Draft, text: str) -> None:
        said = [match for one in _HEADING if (match := one.fullmatch(text))]
        again = any(match.groupdict().keys() & draft.facts.keys() for match in said)
        if draft.columns or not said or again:
            # A heading that begins again is that of a table whose title was lost.
            self.leave(ended=bool(said) or text.rstrip() == _LAST)
            self.garbage.add(text)
        for match in said:
            draft.facts |= {key: value for key, value in match.groupdict().items() if value}

    def _row(self, draft: Draft, number: int, text: str) -> bool:
        lacking = _NO_SAMPLE.fullmatch(text)
        if lacking and draft.columns:
            draft.reject(number, text, f"the program has no sample of {lacking[1]} bytes")
            return True
        words = text.split()
        if not draft.columns or not words or not words[0].isdecimal():
            if tables.is_row(words):  # the heading was lost: what follows may be another table
                self.leave(ended=False)
            return False
        printed = dict(zip(draft.columns, words, strict=False))
        if len(words) != len(draft.columns) or not all(map(_fits, printed, printed.values())):
            draft.reject(number, text, tables.why_no_number(words))
            return True
        values = {name: tables.number(word) for name, word in printed.items()}
        draft.add(
            TableRow(
                size=int(printed.get("#bytes", "0")),
                values=values,
                printed=printed,
                line=number,
                group=int(printed.get("Group", "0")),
            ),
            text,
        )
        return True

    def leave(self, *, ended: bool) -> None:
        """End the table that is being read."""
        if self._draft is not None:
            self.tables.append(self._draft.finish(ended=ended))
        self._draft = None


def _columns(text: str) -> tuple[str, ...]:
    """Return the columns of a heading, with the `#` that copies lose; empty when it is none."""
    words = text.split()
    if not words or not all(_COLUMN.fullmatch(word) for word in words):
        return ()
    return tuple(f"#{word}" if word in {"bytes", "repetitions"} else word for word in words)


def _fits(name: str, word: str) -> bool:
    """Return whether a word is what the program prints in a column."""
    if name.startswith("#") or name in {"Group", "Msg/sec"}:
        return bool(re.fullmatch(r"\d{1,15}", word))
    return bool(re.fullmatch(r"-?\d{1,12}\.\d\d|-?(?:inf|nan)", word))
