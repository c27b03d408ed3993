"""A comparison as plain tables, as CSV, and what it leaves undecided."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from stackproof.compare.collect import STATISTICS
from stackproof.compare.margins import P99, TAIL
from stackproof.compare.model import (
    TABLE_SIZES,
    Cell,
    Comparison,
    Curve,
    Discarded,
    Panel,
    Point,
    Validated,
    Verdict,
    Why,
)
from stackproof.compare.tails import FAIL_BY_TAIL, NO_TAIL_MEASURED, TAIL_UNDECIDED
from stackproof.core import harmless
from stackproof.core.numbers import percent_text, ranges_text, ratio_text, size_text
from stackproof.core.value import Value
from stackproof.results.measurement import State

NO_SIZE = "no size"
"""Column of a benchmark without a message, such as barrier."""

WORDS = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.INCONCLUSIVE: "?"}
"""Verdicts of cells as short words: no meaning by colour alone."""

WHY_TEXTS = {
    Why.NOT_TRUSTED: "these results are not what they say, so nothing is judged",
    Why.WITHHELD: "no verdict on this arm is given",
    Why.NO_PAIRS: "no block has a usable launch of both arms",
    Why.TOO_FEW: "there are too few launches",
    Why.INTERVAL: "the interval reaches over the margin",
    Why.CHANCE: "below the margin, but not beyond chance among so many sizes",
    Why.NOISE: "below the margin, but the baseline differs from itself as much",
    Why.TAIL: "the tail is undecided, and a margin is stated for it",
    Why.TAIL_BEYOND: "the tail seems worse by more than its margin, and that is not proven",
    Why.NO_TAIL: "no tail was measured, and a margin is stated for it",
    Why.DISTURBED: "other programs ran on a rank's CPU, and launches without that decide nothing",
}

SHORT_WHY = {
    Why.NO_PAIRS: "no pair of launches",
    Why.TOO_FEW: "too few launches",
    Why.INTERVAL: "interval crosses margin",
    Why.CHANCE: "may be chance",
    Why.NOISE: "within the noise",
    Why.TAIL: "tail undecided",
    Why.TAIL_BEYOND: "tail may be worse",
    Why.NO_TAIL: "no tail measured",
    Why.DISTURBED: "other programs ran",
}
"""The same in the narrow column of a table."""

TAIL_MARK = "~"
"""Mark of a cell whose tail is undecided, or FAILs alone."""

_OF_TAIL = frozenset({Why.TAIL, Why.TAIL_BEYOND})

UNPROVEN = "slow?"
"""Word of a cell whose whole interval lies below the margin, where FAIL is not proven."""


class Row(Value, kw_only=False):
    """One curve of one challenger at the sizes of the table; None where nothing was measured."""

    panel: Panel
    label: str
    cells: tuple[Cell | None, ...]


def measured_sizes(comparison: Comparison) -> list[int]:
    """Return the sizes of messages, in bytes, that anything was judged at, the smallest first."""
    return sorted(
        {
            cell.size
            for panel in comparison.panels
            if panel.curve.sized
            for judgement in panel.judgements
            for cell in judgement.cells
        }
    )


def table_sizes(comparison: Comparison) -> tuple[int, ...]:
    """Return the sizes of the verdict table that were measured.

    All sizes where there are at most six; six others where none of the table's was measured.
    """
    measured = measured_sizes(comparison)
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


def place_label(comparison: Comparison, curve: Curve) -> str:
    """Return a curve's placement, with its program where more than one was run."""
    programs = {panel.curve.program for panel in comparison.panels}
    return f"{curve.placement}, {curve.program}" if len(programs) > 1 else curve.placement


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
    """Return a cell as `0.98 pass`, `0.80 FAIL`, `0.68 slow?`, `0.95 ?`; a dash for none.

    A tilde marks the tail: `pass~` and `?~` where it is undecided, `FAIL~` where it FAILs and the
    median does not.
    """
    if cell is None:
        return "-"
    ratio = "" if cell.ratio is None else f"{ratio_text(cell.ratio)} "
    tail = TAIL_MARK if cell.why in _OF_TAIL or cell.reads == TAIL_UNDECIDED else ""
    return f"{ratio}{UNPROVEN if cell.seems_slower else WORDS[cell.verdict]}{tail}"


def tail_lines(comparison: Comparison, arm: str) -> list[str]:
    """Return the sentences on an arm's tails and their places: FAIL, undecided, not measured."""
    groups: dict[str, list[tuple[Panel, Cell]]] = {FAIL_BY_TAIL: [], TAIL_UNDECIDED: []}
    groups[NO_TAIL_MEASURED] = []
    for panel in comparison.panels:
        judgement = panel.judgement(arm)
        for cell in judgement.cells if judgement else ():
            if cell.reads in groups:
                groups[cell.reads].append((panel, cell))
    return [
        f"{words} at {len(cells)}: {_places_text(_places(comparison, arm, cells))}"
        + _worst_tail(cells)
        for words, cells in groups.items()
        if cells
    ]


def _worst_tail(cells: Sequence[tuple[Panel, Cell]]) -> str:
    tails = [
        (max(tail.ratio, 1 / tail.ratio), tail.statistic, ratio_text(tail.ratio))
        for _, cell in cells
        for tail in cell.tails
        if cell.why in _OF_TAIL and tail.verdict is cell.verdict and tail.ratio
    ]
    if not tails:
        return ""
    _, statistic, ratio = max(tails)
    return f"; the worst is {statistic}, {ratio} of the baseline's"


def tail_text(cell: Cell) -> str:
    """Return the judgement of a cell's tail: `mean 0.99 PASS, p95 0.50 FAIL`."""
    ratios = ("" if tail.ratio is None else f"{ratio_text(tail.ratio)} " for tail in cell.tails)
    return ", ".join(
        f"{tail.statistic} {ratio}{tail.verdict}"
        for tail, ratio in zip(cell.tails, ratios, strict=True)
    )


def title_of(comparison: Comparison, arm: str) -> str:
    """Return `mpich against impi: FAIL`."""
    found = comparison.verdict_of(arm)
    who = f"{arm} (the baseline once more)" if found.is_null else arm
    return f"{who} against {comparison.spec.baseline}: {found.reads}"


SPEED = "Speed, where the baseline has 1: 0.5 is half as fast, 2 is twice as fast."
"""Stands at a table, as the ratio of a latency reads the other way round."""

MEANINGS = {
    WORDS[Verdict.FAIL]: "FAIL: slower by more than the margin.",
    UNPROVEN: "slow?: slower by more than the margin, but that is not proven, so INCONCLUSIVE.",
    WORDS[Verdict.INCONCLUSIVE]: "?: INCONCLUSIVE, these launches cannot tell.",
    TAIL_MARK: "~ is for the tail (mean and 95th percentile of samples): undecided, or with FAIL "
    "the part that fails.",
}
"""What the words of cells mean."""


def margins_text(comparison: Comparison) -> str:
    """Return by how much a challenger may be worse, for the kinds that were measured."""
    kinds = dict.fromkeys(panel.curve.kind for panel in comparison.panels)
    kinds |= dict.fromkeys(kind for kind in (TAIL, P99) if kind in comparison.margins)
    said = ", ".join(f"{kind} {percent_text(comparison.margins[kind])}" for kind in kinds)
    return f"margins: {said}"


def presence(comparison: Comparison) -> dict[str, int]:
    """Return how many timed launches of each arm entered, where it has the fewest.

    As many as were planned are wanted at each placement, of each program that the arm ran.
    """
    found: dict[tuple[str, str, str], int] = {}
    for panel in comparison.panels:
        for one in panel.arms:
            key = (one.arm, panel.curve.placement, panel.curve.program)
            here = max((len(point.blocks) for point in one.points), default=0)
            found[key] = max(found.get(key, 0), here)
    fewest: dict[str, int] = {}
    for (arm, _, _), count in found.items():
        fewest[arm] = min(fewest.get(arm, count), count)
    return {arm: fewest[arm] for arm in comparison.arms if arm in fewest}


def presence_text(comparison: Comparison) -> str:
    """Return launches planned against those that entered, and which arms have another number."""
    planned = comparison.spec.launches
    found = presence(comparison)
    other = [f"{arm} {count}" for arm, count in found.items() if count != planned]
    head = f"launches: {planned} planned per arm and placement; "
    if not other:
        return f"{head}every arm has them all"
    rest = "" if len(other) == len(found) else "; all others have them all"
    return f"{head}where it has the fewest: {', '.join(other)}{rest}"


class Undecided(Value, kw_only=False):
    """Cells of one challenger that are undecided for one reason.

    `places` are placements, with the program where there are several, and what is undecided there;
    `launches` would settle `settled` of the `count` cells, 0 where no sensible number would.
    """

    word: str
    reason: str
    count: int
    launches: int
    settled: int
    places: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def because(self) -> str:
        """Return the reason, and how many launches would decide how many of the cells."""
        if self.launches and self.reason == WHY_TEXTS[Why.TOO_FEW]:
            return f"{self.reason} (a verdict needs {self.launches} of each arm)"
        them = "them" if self.settled == self.count else f"{self.settled} of them"
        needs = f" (about {self.launches} launches per arm would decide {them})"
        return self.reason + (needs if self.launches else "")


def undecided(comparison: Comparison, arm: str) -> tuple[Undecided, ...]:
    """Return why an arm's cells are undecided, those that look slower first."""
    groups: dict[tuple[bool, Why], list[tuple[Panel, Cell]]] = {}
    for panel in comparison.panels:
        judgement = panel.judgement(arm)
        for cell in judgement.cells if judgement else ():
            if cell.why is not None and cell.verdict is Verdict.INCONCLUSIVE:
                groups.setdefault((not cell.seems_slower, cell.why), []).append((panel, cell))
    return tuple(
        _undecided(comparison, arm, WORDS[Verdict.INCONCLUSIVE] if open_ else UNPROVEN, cells)
        for (open_, _), cells in sorted(groups.items(), key=lambda group: group[0][0])
    )


def _undecided(
    comparison: Comparison, arm: str, word: str, cells: Sequence[tuple[Panel, Cell]]
) -> Undecided:
    needs = [cell.launches_needed for _, cell in cells if cell.launches_needed is not None]
    why = cells[0][1].why
    return Undecided(
        word=word,
        reason="" if why is None else reason_text(why) + _worst_tail(cells),
        count=len(cells),
        launches=max(needs, default=0),
        settled=len(needs),
        places=_places(comparison, arm, cells),
    )


def _places(
    comparison: Comparison, arm: str, cells: Sequence[tuple[Panel, Cell]]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the places of an arm's cells: placements, and curves with the sizes if not all."""
    sizes: dict[tuple[str, str, str], list[int]] = {}
    for panel, cell in cells:
        sizes.setdefault(panel.curve.key, []).append(cell.size)
    places: dict[str, list[str]] = {}
    for panel in comparison.panels:
        judgement = panel.judgement(arm)
        if judgement is None or panel.curve.key not in sizes:
            continue
        known, here = [one.size for one in judgement.cells], sizes[panel.curve.key]
        which = f" {ranges_text(here, known)}" if len(here) < len(known) else ""
        name = place_label(comparison, panel.curve)
        places.setdefault(name, []).append(f"{panel.curve.title}{which}")
    return tuple((name, tuple(curves)) for name, curves in places.items())


def _places_text(places: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    return "; ".join(f"{place}: {', '.join(curves)}" for place, curves in places)


def reason_text(why: Why) -> str:
    """Return why a cell is undecided."""
    return WHY_TEXTS.get(why, why.value.replace("-", " "))


def short_reason(cell: Cell) -> str:
    """Return why a cell is undecided and how many launches would decide it, in few words."""
    if cell.why is None or cell.verdict is not Verdict.INCONCLUSIVE:
        return ""
    text = SHORT_WHY.get(cell.why, cell.why.value.replace("-", " "))
    return text if cell.launches_needed is None else f"{text}; ~{cell.launches_needed} launches"


def undecided_text(one: Undecided) -> str:
    """Return a group of undecided cells as a sentence: why, what would decide them, where."""
    return f"{one.word} {one.count} because {one.because}: {_places_text(one.places)}"


def row_groups(
    comparison: Comparison, arm: str, placement: str
) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    """Return one challenger's rows at one placement, each program's under a heading of its own."""
    groups: dict[str, list[Row]] = {}
    for row in verdict_rows(comparison, arm, placement):
        plain = Row(row.panel, row.panel.curve.title, row.cells)
        groups.setdefault(place_label(comparison, row.panel.curve), []).append(plain)
    return tuple((heading, tuple(rows)) for heading, rows in groups.items())


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


CSV_COLUMNS = (
    "challenger", "baseline", "null_arm", "placement", "locality", "program", "benchmark",
    "size_bytes", "unit", "pairs", "baseline_median", "challenger_median", "ratio", "ratio_low",
    "ratio_high", "p_adjusted", "margin", "noise_floor", "verdict", "why", "launches_needed",
    "baseline_percent_of_limit", "challenger_percent_of_limit", "nodes", "ranks",
    "baseline_transport", "transport", "launches_planned", "reads",
    *(f"{what}_{name}" for name in STATISTICS for what in ("baseline", "challenger", "ratio")),
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
                    comparison.spec.launches,
                    cell.reads,
                    *_tail_columns(cell, left, right),
                )


def _tail_columns(cell: Cell, left: Point | None, right: Point | None) -> Iterator[float | None]:
    ratios = {tail.statistic: tail.ratio for tail in cell.tails}
    for name in STATISTICS:
        yield from (point.tails.get(name) if point else None for point in (left, right))
        yield ratios.get(name)


def render_csv(comparison: Comparison) -> str:
    """Return every judged cell as CSV (RFC 4180, UTF-8); an unknown value is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(CSV_COLUMNS)
    writer.writerows(map(harmless.cell, row) for row in csv_rows(comparison))
    return buffer.getvalue()
