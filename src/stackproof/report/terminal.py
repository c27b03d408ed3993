"""A comparison as text for a terminal or a log: no line is wider than asked for."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from stackproof.compare.model import Cell, Comparison
from stackproof.core import harmless
from stackproof.report.headline import describe_reason, headline, list_numbers
from stackproof.report.summary import noise_text
from stackproof.report.tables import (
    MEANINGS,
    SPEED,
    TAIL_MARK,
    Row,
    cell_word,
    discarded_text,
    margins_text,
    placements,
    presence_text,
    row_groups,
    table_columns,
    tail_lines,
    title_of,
    undecided,
    undecided_text,
    validated_lines,
)

WIDTH = 100
"""Columns of a line where nobody says otherwise."""

_COLUMN = 12
_DISCARDED_SHOWN = 20


def terminal_verdicts(comparison: Comparison, width: int = WIDTH, *, brief: bool = False) -> str:
    """Return a comparison as plain text that ends with a newline: verdicts, then tables.

    Where it is `brief`, the tables of the null arm, those of too few launches, undecided places,
    and notes are left out.
    """
    cells: list[Cell] = []
    lines: list[str] = []
    for arm in comparison.spec.challengers if brief else comparison.challengers:
        own = [c for panel in comparison.panels if (j := panel.judgement(arm)) for c in j.cells]
        lines += [*_answer(comparison, arm, width)]
        if not brief or comparison.spec.equal:
            lines += _wrapped(comparison.verdict_of(arm).sentence, width, "  ")
        if not brief or any(cell.is_judged for cell in own):
            lines += _tables(comparison, arm, width)
            cells += own
        lines += [*_tails(comparison, arm, width)]
        lines += [*([] if brief else _undecided(comparison, arm, width)), ""]
    lines += [*_legend(cells, width), *_closing(comparison, width, brief=brief)]
    return "\n".join(map(harmless.line, lines)) + "\n"


def _answer(comparison: Comparison, arm: str, width: int) -> list[str]:
    """Return the verdict on an arm, the headline of a challenger, numbers and the reason."""
    lines = _wrapped(title_of(comparison, arm), width)
    texts = [*list_numbers(comparison, arm), describe_reason(comparison, arm)]
    if arm != comparison.spec.null:
        texts.insert(0, headline(comparison, arm))
    return [*lines, *(line for text in texts for line in _wrapped(text, width, "  "))]


def _legend(cells: Sequence[Cell], width: int) -> list[str]:
    """Return the meaning of the words in tables, of those that are there."""
    words = " ".join(map(cell_word, cells)).replace(TAIL_MARK, f" {TAIL_MARK}").split()
    meanings = [text for word, text in MEANINGS.items() if word in words]
    return [*_wrapped(" ".join(meanings), width), ""] if meanings else []


def _tables(comparison: Comparison, arm: str, width: int) -> list[str]:
    lines = ["", *_wrapped(SPEED, width, "  ")]
    for placement in placements(comparison):
        for heading, rows in row_groups(comparison, arm, placement):
            lines += ["", *_table(heading, rows, table_columns(comparison), width)]
    return lines


def _wrapped(text: str, width: int, indent: str = "", hanging: str = "  ") -> list[str]:
    # What a terminal would obey also breaks lines, so it goes first.
    return textwrap.wrap(
        harmless.line(text), max(width, 20), initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_on_hyphens=False,
    )  # fmt: skip


def _table(heading: str, rows: Sequence[Row], columns: Sequence[str], width: int) -> list[str]:
    """Return a table; columns that have no room stand below the others."""
    labels = [heading, *(row.label for row in rows)]
    first = min(max(map(len, labels)) + 2, max(width - 2 - _COLUMN, 10))
    each = max((width - 2 - first) // _COLUMN, 1)
    lines: list[str] = []
    for start in range(0, len(columns), each):
        part = slice(start, start + each)
        lines.append(_line(heading, columns[part], first))
        lines += [
            _line(row.label, tuple(cell_word(cell) for cell in row.cells[part]), first)
            for row in rows
        ]
    return lines


def _line(label: str, cells: Sequence[str], first: int) -> str:
    # Room for a space is kept before the first cell whatever the name of a placement is.
    name = label if len(label) < first else f"{label[: first - 2]}… "
    return f"  {name:{first}}{''.join(f'{cell:{_COLUMN - 1}} ' for cell in cells)}".rstrip()


def _tails(comparison: Comparison, arm: str, width: int) -> list[str]:
    """Return the tails that FAIL, are undecided, or were not measured."""
    said = tail_lines(comparison, arm)
    return ["", *(row for line in said for row in _wrapped(line, width, "  "))] if said else []


def _undecided(comparison: Comparison, arm: str, width: int) -> list[str]:
    """Return why cells are undecided and what would decide them, all sizes included."""
    lines: list[str] = []
    for one in undecided(comparison, arm):
        lines += _wrapped(undecided_text(one), width, "    ")
    return ["", "  undecided:", *lines] if lines else []


def _closing(comparison: Comparison, width: int, *, brief: bool) -> list[str]:
    """Return the lines below the tables: facts, discarded launches, warnings, the verdict."""
    facts = [margins_text(comparison), presence_text(comparison)]
    facts += [f"noise: {noise}" for noise in (noise_text(comparison),) if noise]
    lines = [line for text in facts for line in _wrapped(text, width)]
    if comparison.discarded:
        lines += ["", f"discarded: {len(comparison.discarded)}"]
        for entry in comparison.discarded[:_DISCARDED_SHOWN]:
            lines += _wrapped(discarded_text(entry), width, "  ")
        more = len(comparison.discarded) - _DISCARDED_SHOWN
        if more > 0:
            lines.append(f"  and {more} more")
    levels = {"warning"} if brief else {"warning", "note"}
    for texts in (
        [ranking.sentence for ranking in comparison.rankings],
        validated_lines(comparison),
        [f"{note.level}: {note.text}" for note in comparison.notes if note.level in levels],
    ):
        if texts:
            lines += ["", *(line for text in texts for line in _wrapped(text, width))]
    return [*lines, "", f"verdict: {comparison.reads}"]
