"""A comparison as plain tables: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stackproof.comparison import (
    TABLE_SIZES,
    Cell,
    Comparison,
    Curve,
    Discarded,
    Panel,
    Validated,
    Verdict,
    Why,
)
from stackproof.measurement import State
from stackproof.quantities import size_text
from stackproof.reporting.shapes_part import markdown_lines
from stackproof.shapes import Mark

NO_SIZE = "no size"
"""Column of a benchmark without a message, such as barrier."""

WORDS = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.INCONCLUSIVE: "?"}
"""Verdicts of cells as short words: no meaning by colour alone."""

WHY_TEXTS = {
    Why.NO_PAIRS: "no block has a usable launch of both arms",
    Why.TOO_FEW: "too few launches",
    Why.INTERVAL: "the interval reaches over the margin",
    Why.CHANCE: "below the margin, but not beyond chance among so many sizes",
    Why.NOISE: "below the margin, but the baseline differs from itself as much",
}

_DISCARDED_SHOWN = 20
_COLUMN = 11


@dataclass(frozen=True, slots=True)
class Row:
    """One curve of one challenger at the sizes of the table; None where nothing was measured."""

    panel: Panel
    label: str
    cells: tuple[Cell | None, ...]


def table_sizes(comparison: Comparison) -> tuple[int, ...]:
    """Return the sizes of the verdict table that were measured.

    All sizes where there are at most six; six others where none of the table's was measured.
    """
    measured = sorted(
        {
            cell.size
            for panel in comparison.panels
            if panel.curve.sized
            for judgement in panel.judgements
            for cell in judgement.cells
        }
    )
    if len(measured) <= len(TABLE_SIZES):
        return tuple(measured)
    chosen = tuple(size for size in TABLE_SIZES if size in measured)
    step = -(-len(measured) // len(TABLE_SIZES))
    return chosen or tuple(measured[::step])


def table_columns(comparison: Comparison) -> tuple[str, ...]:
    """Return the headings of the verdict table, `no size` last where it is needed."""
    sizes = tuple(size_text(size) for size in table_sizes(comparison))
    return (*sizes, NO_SIZE) if _any_unsized(comparison) else sizes


def _any_unsized(comparison: Comparison) -> bool:
    return any(not panel.curve.sized for panel in comparison.panels)


def curve_label(comparison: Comparison, curve: Curve) -> str:
    """Return a curve's title, with its program where more than one was run."""
    programs = {panel.curve.program for panel in comparison.panels}
    return f"{curve.title} ({curve.program})" if len(programs) > 1 else curve.title


def placements(comparison: Comparison) -> tuple[str, ...]:
    """Return the placements in order."""
    return tuple(dict.fromkeys(panel.curve.placement for panel in comparison.panels))


def verdict_rows(comparison: Comparison, arm: str, placement: str) -> tuple[Row, ...]:
    """Return one challenger's rows of the verdict table at one placement."""
    sizes = table_sizes(comparison)
    unsized = _any_unsized(comparison)
    rows = []
    for panel in comparison.panels:
        judgement = panel.judgement(arm)
        if panel.curve.placement != placement or judgement is None:
            continue
        by_size = {cell.size: cell for cell in judgement.cells}
        cells: list[Cell | None] = [by_size.get(s) if panel.curve.sized else None for s in sizes]
        if unsized:
            cells.append(None if panel.curve.sized else judgement.cells[0])
        rows.append(Row(panel, curve_label(comparison, panel.curve), tuple(cells)))
    return tuple(rows)


def cell_word(cell: Cell | None) -> str:
    """Return a cell as `0.98 pass`, `0.80 FAIL`, `0.95 ?`; a dash where nothing was measured."""
    if cell is None:
        return "-"
    ratio = "" if cell.ratio is None else f"{cell.ratio:.2f} "
    return f"{ratio}{WORDS[cell.verdict]}"


def title_of(comparison: Comparison, arm: str) -> str:
    """Return `mpich against impi: FAIL`."""
    found = comparison.verdict_of(arm)
    who = f"{arm} (the baseline once more)" if found.is_null else arm
    return f"{who} against {comparison.spec.baseline}: {found.verdict}"


LEGEND = (
    "Numbers are ratios of medians, more than 1 when the challenger is better. "
    "FAIL: worse by more than the margin. ?: INCONCLUSIVE, these launches cannot tell."
)


def terminal_verdicts(comparison: Comparison) -> str:
    """Return everything `compare` says, as plain text that ends with a newline."""
    lines: list[str] = []
    columns = table_columns(comparison)
    for arm in comparison.challengers:
        lines += [title_of(comparison, arm), f"  {comparison.verdict_of(arm).sentence}"]
        for placement in placements(comparison):
            rows = verdict_rows(comparison, arm, placement)
            if not rows:
                continue
            width = max(len(placement), *(len(row.label) for row in rows)) + 2
            lines += ["", _line(placement, columns, width)]
            lines += [
                _line(row.label, tuple(cell_word(cell) for cell in row.cells), width)
                for row in rows
            ]
        lines.append("")
    lines += [LEGEND, *closing_lines(comparison)]
    return "\n".join(map(harmless, lines)) + "\n"


def harmless(line: str) -> str:
    """Return a line without what a terminal would obey: names and evidence are not ours."""
    return "".join(character if character.isprintable() else "?" for character in line)


def _line(label: str, cells: tuple[str, ...], width: int) -> str:
    return f"  {label:{width}}{''.join(f'{cell:{_COLUMN}}' for cell in cells)}".rstrip()


def closing_lines(comparison: Comparison) -> list[str]:
    """Return what stands below the tables: discarded launches, warnings, the whole verdict."""
    lines = []
    if comparison.discarded:
        lines += ["", f"discarded: {len(comparison.discarded)}"]
        lines += [f"  {discarded_text(entry)}" for entry in comparison.discarded[:_DISCARDED_SHOWN]]
        more = len(comparison.discarded) - _DISCARDED_SHOWN
        if more > 0:
            lines.append(f"  and {more} more")
    if comparison.rankings:
        lines += ["", *(ranking.sentence for ranking in comparison.rankings)]
    if comparison.validated:
        lines += ["", *validated_lines(comparison)]
    if comparison.notes:
        lines += ["", *(f"{note.level}: {note.text}" for note in comparison.notes)]
    lines += ["", f"verdict: {comparison.verdict}"]
    return [harmless(line) for line in lines]


def validated_lines(comparison: Comparison) -> list[str]:
    """Return a line for each placement that was validated and not timed."""
    found: dict[str, list[Validated]] = {}
    for one in comparison.validated:
        found.setdefault(one.placement, []).append(one)
    lines = []
    for placement, all_of_it in found.items():
        wrong = [f"{one.arm}: {one.evidence}" for one in all_of_it if one.state is not State.OK]
        right = ", ".join(one.arm for one in all_of_it if one.state is State.OK)
        said = [f"every byte was right with {right}"] if right else []
        lines.append(f"validated, not timed, {placement}: {'; '.join([*said, *wrong])}")
    return lines


def discarded_text(entry: Discarded) -> str:
    """Return one discarded launch as a line."""
    where = " ".join(
        part
        for part in (
            entry.arm,
            "" if entry.block is None else f"block {entry.block}",
            entry.placement,
            entry.program,
        )
        if part
    )
    head = f"{entry.what} {where}".rstrip()
    return f"{head}: {entry.reason}: {entry.evidence}"


def render_markdown(comparison: Comparison, marks: Sequence[Mark] = ()) -> str:
    """Return the verdict tables as Markdown (GitHub's tables), and the faults that curves show."""
    columns = table_columns(comparison)
    lines = [f"# {_plain(comparison.spec.name)}: {comparison.verdict}", ""]
    for arm in comparison.challengers:
        verdict = comparison.verdict_of(arm)
        lines += [f"## {_plain(title_of(comparison, arm))}", "", _plain(verdict.sentence), ""]
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
    lines += [LEGEND, ""]
    lines += [f"* {_plain(ranking.sentence)}" for ranking in comparison.rankings]
    lines += [f"* {_plain(line)}" for line in validated_lines(comparison)]
    lines += [f"* {_plain(discarded_text(entry))}" for entry in comparison.discarded]
    lines += [f"* {note.level}: {_plain(note.text)}" for note in comparison.notes]
    lines += [f"* {_plain(line)}" for line in markdown_lines(marks)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _plain(value: str) -> str:
    """Return text in which nothing is Markdown or HTML."""
    for character in "\\`*_[]<>|#&":
        value = value.replace(character, f"\\{character}")
    return " ".join(value.split())


CSV_COLUMNS = (
    "challenger", "baseline", "null_arm", "placement", "locality", "program", "benchmark",
    "size_bytes", "unit", "pairs", "baseline_median", "challenger_median", "ratio", "ratio_low",
    "ratio_high", "p_adjusted", "margin", "noise_floor", "verdict", "why", "launches_needed",
    "baseline_percent_of_limit", "challenger_percent_of_limit", "nodes", "ranks",
    "baseline_transport", "transport",
)  # fmt: skip


def csv_rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    """Yield one row per judged cell, in the order of `CSV_COLUMNS`."""
    for panel in comparison.panels:
        curve = panel.curve
        base = panel.points(comparison.spec.baseline)
        for judgement in panel.judgements:
            points = panel.points(judgement.arm)
            for cell in judgement.cells:
                left, right = base.get(cell.size), points.get(cell.size)
                yield (
                    judgement.arm,
                    comparison.spec.baseline,
                    "yes" if judgement.arm == comparison.spec.null else "no",
                    curve.placement,
                    curve.locality,
                    curve.program,
                    curve.benchmark,
                    cell.size,
                    curve.unit,
                    cell.blocks,
                    left and left.median,
                    right and right.median,
                    cell.ratio,
                    cell.low,
                    cell.high,
                    cell.p,
                    cell.margin,
                    cell.floor,
                    cell.verdict.value,
                    cell.why and cell.why.value,
                    cell.launches_needed,
                    left and left.percent_of_limit,
                    right and right.percent_of_limit,
                    curve.nodes or None,
                    curve.ranks or None,
                    panel.transport(comparison.spec.baseline),
                    panel.transport(judgement.arm),
                )


def render_csv(comparison: Comparison) -> str:
    """Return every judged cell as CSV (RFC 4180, UTF-8); an unknown value is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(CSV_COLUMNS)
    writer.writerows(csv_rows(comparison))
    return buffer.getvalue()
