"""What an import leaves out, in few words: remarks of one kind are one note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stackproof.bench.programs import imb, imb_tables, osu
from stackproof.bench.programs.tables import PrintedTable
from stackproof.core.errors import Problem
from stackproof.core.value import Value, replace

_SUBJECTS = 6
"""So many names of tables stand in one note."""


class Remark(Value):
    """A line of a file and what is to say of it; `subject` is the title of its table, or empty."""

    file: str
    line: int
    text: str
    subject: str = ""


def summarise(remarks: Iterable[Remark]) -> Iterator[str]:
    """Yield a note for each kind of remark, numbers and rows apart, with the place of the first."""
    kinds: dict[str, list[Remark]] = {}
    for one in remarks:
        kinds.setdefault(re.sub(r"\d+|`[^`]*`$", "", one.text), []).append(one)
    for first, *others in kinds.values():
        subject = f"{first.subject}: " if first.subject else ""
        yield f"{first.file}:{first.line}: {subject}{first.text}{_more(first, others)}"


def summarise_problems(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield a problem for each kind, titles and numbers apart, with the place of the first."""
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for one in problems:
        text = re.sub(r"\d+", "", one.message.partition(": ")[2])
        kinds.setdefault((text, one.hint or ""), []).append(one)
    for first, *others in kinds.values():
        more = f"; so with {len(others)} more tables" if others else ""
        yield replace(first, message=f"{first.message}{more}")


def _more(first: Remark, others: list[Remark]) -> str:
    """Return the sentence on further places of the same remark."""
    if not others:
        return ""
    names = [name for name in dict.fromkeys(one.subject for one in others) if name]
    names = [name for name in names if name != first.subject]
    few = ", ".join(names[:_SUBJECTS]) + (", …" if len(names) > _SUBJECTS else "")
    files = {one.file for one in others} | {first.file}
    last = f"line {others[-1].line}" if len(files) == 1 else f"{others[-1].file}:{others[-1].line}"
    where = f" of {len(files)} files" if len(files) > 1 else ""
    what = "place" if len(others) == 1 else "places"
    return f"; the same at {len(others)} more {what}{where}, to {last}" + (f": {few}" * bool(few))


def why_no_metric(table: PrintedTable) -> str:
    """Return the reason for leaving out a table without a metric."""
    if not table.rows:
        return "no row stands below its title"
    if table.program == osu.PROGRAM:
        known = osu.benchmark_of(table.title)
        return f"its columns are not known: {', '.join(table.columns)}" if known else _NONE
    section = imb.SECTIONS.get(table.title)
    if section is None:
        return _NONE
    if not imb_tables.has_columns_of(section, table):
        return "its columns are not those of IMB-MPI1"
    if table.facts.get("processes") != "2":
        return "it adds up all pairs, which is no rate of one pair"
    return "its MB are not known to be 10^6 bytes: before release 2018 they were 2^20"


_NONE = "no benchmark here measures this"
