"""A comparison as Markdown, for pages and threads that show it."""

from __future__ import annotations

from stackproof.compare.model import Comparison
from stackproof.report.headline import describe_title, headlines, list_numbers
from stackproof.report.tables import (
    MEANINGS,
    SPEED,
    cell_word,
    discarded_text,
    margins_text,
    placements,
    presence_text,
    table_columns,
    tail_lines,
    title_of,
    undecided,
    undecided_text,
    validated_lines,
    verdict_rows,
)


def render_markdown(comparison: Comparison) -> str:
    """Return the verdict tables as Markdown (GitHub's tables)."""
    columns = table_columns(comparison)
    lines = [f"# {_plain(describe_title(comparison))}: {comparison.reads}", ""]
    lines += [_plain(margins_text(comparison)), "", _plain(presence_text(comparison)), ""]
    lines += [line for said in headlines(comparison) for line in (_plain(said), "")]
    for arm in comparison.challengers:
        verdict = comparison.verdict_of(arm)
        lines += [f"## {_plain(title_of(comparison, arm))}", "", _plain(verdict.sentence), ""]
        lines += [*(f"* {_plain(line)}" for line in list_numbers(comparison, arm)), ""]
        for placement in placements(comparison):
            rows = verdict_rows(comparison, arm, placement)
            if not rows:
                continue
            lines.append(_markdown_row((placement, *columns)))
            lines.append("|" + " --- |" * (len(columns) + 1))
            lines += [
                _markdown_row((row.label, *(cell_word(cell) for cell in row.cells))) for row in rows
            ]
            lines.append("")
        lines += [f"* {_plain(line)}" for line in tail_lines(comparison, arm)]
        lines += [f"* {_plain(undecided_text(one))}" for one in undecided(comparison, arm)]
        lines.append("")
    lines += [" ".join((SPEED, *MEANINGS.values())), ""]
    lines += [f"* {_plain(ranking.sentence)}" for ranking in comparison.rankings]
    lines += [f"* {_plain(line)}" for line in validated_lines(comparison)]
    lines += [f"* {_plain(discarded_text(entry))}" for entry in comparison.discarded]
    lines += [f"* {note.level}: {_plain(note.text)}" for note in comparison.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _plain(value: str) -> str:
    """Return text in which nothing is Markdown or HTML."""
    for character in "\\`*_[]<>|#&":
        value = value.replace(character, f"\\{character}")
    return " ".join(value.split())
