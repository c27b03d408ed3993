"""Tables that benchmarks have printed, read without knowing what was asked of them.

Files of others come without a case, from copies and with other programs' lines in between. What is
read is right or it is rejected: a row counts only at its place, below its own title and heading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from stackproof.bench.programs import stray_output
from stackproof.core.errors import Reason
from stackproof.core.value import Value

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_NUMBER = re.compile(r"-?(?:\d{1,15}(?:\.\d{1,6})?|inf|nan)")
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+,\d+")


class TableRow(Value):
    """One line of a table: `values` by column, None for `inf`, `nan` and words.

    `size` is in bytes, 0 in a table without sizes; `line` counts from 1.
    """

    size: int
    values: Mapping[str, float | None]
    printed: Mapping[str, str]
    line: int
    group: int = 0


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
    so that the table was not cut.
    """

    program: str
    version: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    line: int
    facts: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    reason: str = ""
    evidence: str = ""
    ended: bool = False
    accelerator: str = ""


class ParsedTables(Value):
    """All tables of a text, and the lines that belong to none."""

    tables: tuple[PrintedTable, ...] = ()
    garbage: tuple[str, ...] = ()


class Draft(Struct):
    """A table while it is read; `any_sizes` says that sizes need only rise."""

    program: str
    title: str
    line: int
    label: str
    version: str = ""
    accelerator: str = ""
    columns: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    rows: list[TableRow] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    reason: str = ""
    evidence: str = ""
    gap: bool = False
    any_sizes: bool = False

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
        """Take a row at its place: sizes double from row to row, none stands twice."""
        before = [one.size for one in self.rows if one.group == row.group]
        if before and self.any_sizes and row.size == before[-1]:
            # Two sizes of a list that are rounded to the same number of elements.
            self.reject(row.line, text, "its size stands here twice")
            return
        if before and row.size <= before[-1]:
            self.refuse(
                Reason.GARBAGE_OUTPUT,
                f"line {row.line}: the sizes begin again, so rows of another run are among these",
            )
        if self.gap:
            self.reject(row.line, text, "it comes after a gap in the sizes")
            return
        if before and not self.any_sizes and before[-1] and row.size > 2 * before[-1]:
            self.gap = True
            self.reject(row.line, text, f"a row is missing between {before[-1]} and {row.size}")
            return
        if before and not self.any_sizes and before[-1] and row.size < 2 * before[-1]:
            self.reject(row.line, text, f"the size does not follow {before[-1]}")
            self.gap = True
            return
        self.rows.append(row)
        self.raw.append(text)

    def finish(self, *, ended: bool) -> PrintedTable:
        """Return the table; rows of another width than the others are left out."""
        odd = odd_widths(self.raw)
        for index in odd:
            self.reject(self.rows[index].line, self.raw[index], "it is not as wide as the others")
        rows = [row for index, row in enumerate(self.rows) if index not in odd]
        if not rows:
            self.refuse(Reason.NO_RESULTS, "the table has no row that can be read")
        return PrintedTable(
            program=self.program,
            version=self.version,
            title=self.title,
            columns=self.columns,
            rows=tuple(rows),
            line=self.line,
            facts=dict(self.facts),
            faults=tuple(self.faults),
            reason=self.reason,
            evidence=self.evidence,
            ended=ended,
            accelerator=self.accelerator,
        )


def odd_widths(lines: Sequence[str]) -> frozenset[int]:
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


def clean_lines(text: str) -> list[tuple[int, str, str]]:
    """Return number, label and rest of every line: no colours, no label of a launcher.

    How deep a line is quoted (`> `, in messages and threads) belongs to its label. A forum
    may have put a backslash before a `#`.
    """
    found = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = _COLOUR.sub("", raw)
        quote = _QUOTE.match(line)
        depth = quote[0].count(">") if quote else 0
        label, rest = stray_output.split_label(line[quote.end() :] if quote else line)
        if rest.lstrip().startswith("\\#"):
            rest = rest.replace("\\#", "#", 1)
        found.append((number, f"{'>' * depth}{label}", rest))
    return found


def number(word: str) -> float | None:
    """Return the number of a word, None for `inf` and `nan`; raises `ValueError` for others."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"`{word}` is not a number as the program prints it")
    if word.lstrip("-") in {"inf", "nan"}:
        return None
    return float(word)


def why_no_number(words: Sequence[str]) -> str:
    """Return why a line is no row, in words."""
    if any(_GROUPED.fullmatch(word) for word in words):
        return "numbers with commas or grouped digits are not read: which is meant is not certain"
    return "it is not a row as the program prints it"


def is_row(words: Sequence[str]) -> bool:
    """Return whether a line is nothing but numbers, two at least."""
    return len(words) > 1 and all(_NUMBER.fullmatch(word) for word in words)
