"""The part of the report that answers the question: verdicts, where, and at which sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markupsafe import Markup

from stackproof.compare.launch_samples import STATISTICS
from stackproof.compare.model import (
    ArmJudgement,
    ArmVerdict,
    Cell,
    Comparison,
    Curve,
    Panel,
    Point,
    Verdict,
)
from stackproof.core.numbers import percent_text, ratio_text, size_text, value_text
from stackproof.report.markup import DASH, details, element, joined, table, table_row
from stackproof.report.tables import (
    Row,
    curve_label,
    placements,
    reason_text,
    short_reason,
    table_sizes,
    tail_text,
    verdict_rows,
)

MARKS = {Verdict.PASS: "●", Verdict.FAIL: "✕", Verdict.INCONCLUSIVE: "○"}
"""Shapes that tell the verdicts apart without colour."""

SLOWER = "▽"
"""Mark of what looks slower by more than the margin, and is not proven."""

WHOLE_LIMIT = 100.0

OVER_LIMIT = (
    "* More than the limit: a transfer of milliseconds can be faster than the rate that a link is "
    "held to on average, because what holds it lets a burst through at first. Far more than the "
    "limit means that the limit stated is not that of the path taken."
)
"""What a star at a share of the limit says."""

_CLASSES = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "open"}

_LEVELS = ("warning", "note")
_UNFOLDED = 2
"""So many notes that are no warnings stand open, where there are more they are folded."""


def cell_class(cell: Cell) -> str:
    """Return the style class of a cell."""
    return "slower" if cell.seems_slower else _CLASSES[cell.verdict]


def cell_mark(cell: Cell) -> str:
    """Return the mark of a cell."""
    return SLOWER if cell.seems_slower else MARKS[cell.verdict]


def cell_words(cell: Cell) -> str:
    """Return a cell's verdict in words."""
    return "slower, not proven" if cell.seems_slower else cell.reads


def cell_title(curve: Curve, cell: Cell) -> str:
    """Return everything that one mark of a picture stands for."""
    size = f"{size_text(cell.size)}: " if curve.sized else ""
    ratio = "" if cell.ratio is None else f", ratio {ratio_text(cell.ratio)}"
    if ratio and cell.low is not None and cell.high is not None:
        ratio += f" ({ratio_text(cell.low)} to {ratio_text(cell.high)})"
    why = why_text(cell)
    tail = tail_text(cell)
    return "; ".join(part for part in (f"{size}{cell_words(cell)}{ratio}", tail, why) if part)


def badge(verdict: Verdict, words: str = "") -> Markup:
    """Return a verdict as a word with its mark, or as it reads with its tail."""
    mark = element("span", MARKS[verdict], aria_hidden="true")
    return element("span", mark, f" {words or verdict}", class_=f"badge {_CLASSES[verdict]}")


def verdict_part(comparison: Comparison) -> Markup:
    """Return the cards with the sentences, and what the reader must be warned of."""
    cards = joined(_card(comparison, verdict) for verdict in comparison.verdicts)
    return element(
        "section",
        element("h2", "Verdict"),
        element("div", cards, class_="cards"),
        *_notes(comparison),
        id="verdict",
    )


def _notes(comparison: Comparison) -> Iterator[Markup]:
    """Yield the warnings, then the notes, folded where there are many."""
    shown: dict[str, list[Markup]] = {level: [] for level in _LEVELS}
    for note in comparison.notes:
        strong = element("strong", f"{note.level.capitalize()}: ")
        shown.setdefault(note.level, []).append(element("p", strong, note.text, class_=note.level))
    notes = shown.pop("note")
    for warnings in shown.values():
        yield from warnings
    if len(notes) > _UNFOLDED:
        yield details(f"{len(notes)} notes", *notes)
    else:
        yield from notes


def _card(comparison: Comparison, verdict: ArmVerdict) -> Markup:
    name = (
        f"{comparison.spec.baseline} against itself"
        if verdict.is_null
        else f"{verdict.arm} against {comparison.spec.baseline}"
    )
    label = "null arm: the noise of this machine" if verdict.is_null else "challenger"
    kind = f"card {_CLASSES[verdict.verdict]}" + (" null" if verdict.is_null else "")
    return element(
        "article",
        element("p", label, class_="eyebrow"),
        element("h3", name, " ", badge(verdict.verdict, verdict.reads)),
        element("p", verdict.sentence),
        _bar(verdict),
        class_=kind,
    )


def _bar(verdict: ArmVerdict) -> Markup | None:
    total = verdict.passed + verdict.failed + verdict.inconclusive
    if not total:
        return None
    counts = (
        ("pass", verdict.passed, "PASS"),
        ("open", verdict.inconclusive - verdict.unproven, "undecided"),
        ("slower", verdict.unproven, "slower, not proven"),
        ("fail", verdict.failed, "FAIL"),
    )
    parts = joined(
        (
            element("span", class_=kind, style=f"flex-grow:{count}")
            for kind, count, _ in counts
            if count
        ),
        "",
    )
    words = ", ".join(f"{count} {word}" for _, count, word in counts if count)
    return element(
        "div",
        element("div", parts, class_="bar", aria_hidden="true"),
        element("p", words, class_="small"),
    )


def tables_part(comparison: Comparison) -> Markup:
    """Return the verdict tables at the chosen sizes, and every number."""
    blocks = [_arm_tables(comparison, arm) for arm in comparison.challengers]
    return element(
        "section",
        element("h2", "At which sizes"),
        element(
            "p",
            "Each cell: typical ratio of two launches of a block with its ",
            f"{comparison.confidence:.0%} interval, then the medians, the baseline's → the "
            "challenger's, in brackets the share of the link's limit, and why it is undecided with "
            "the launches per arm that would decide it. A ratio above 1 means that the "
            "challenger is better. "
            "Below that: a tail (mean or 95th percentile of a launch's samples) that FAILs, is "
            "undecided, or was not measured. "
            f"● PASS, ✕ FAIL; INCONCLUSIVE are {SLOWER} SLOWER? (the whole interval lies below "
            "the margin, and that is not proven) and ○ OPEN.",
        ),
        element("p", OVER_LIMIT, class_="small") if over_limit(comparison) else None,
        joined(blocks),
        id="sizes",
    )


def sizes_id(comparison: Comparison, arm: str) -> str:
    """Return the id of the part with the tables of a challenger."""
    return f"sizes-{comparison.challengers.index(arm)}"


def row_id(comparison: Comparison, panel: Panel, arm: str, size: int) -> str:
    """Return the id of the row that has every number of a point."""
    numbers = (comparison.panels.index(panel), comparison.challengers.index(arm), size)
    return "row-" + "-".join(map(str, numbers))


def row_class(cells: Iterable[Cell | None]) -> str | None:
    """Return the style class of a row: `fine` where nothing FAILs, which a filter hides."""
    failed = any(cell is not None and cell.verdict is Verdict.FAIL for cell in cells)
    return None if failed else "fine"


def _arm_tables(comparison: Comparison, arm: str) -> Markup:
    verdict = comparison.verdict_of(arm)
    who = f"{arm} (null arm)" if verdict.is_null else arm
    sizes = table_sizes(comparison)
    head = ("", *(size_text(size) for size in sizes))
    shown = []
    for placement in placements(comparison):
        rows = verdict_rows(comparison, arm, placement)
        if rows:
            shown.append(
                table(
                    f"{who} against {comparison.spec.baseline}, {placement}",
                    head,
                    (_size_row(comparison, row, arm, len(sizes)) for row in rows),
                    class_="verdicts",
                )
            )
    every = [
        _every_size(comparison, panel, judgement)
        for panel in comparison.panels
        if (judgement := panel.judgement(arm)) is not None
    ]
    body = (
        *shown,
        details(f"Every size of {who}, with every number", *every),
    )
    heading = element(
        "h3", f"{who} against {comparison.spec.baseline} ", badge(verdict.verdict, verdict.reads)
    )
    if verdict.is_null:
        inside = details(f"{who} against {comparison.spec.baseline}: {verdict.reads}", *body)
        return element("div", inside, id=sizes_id(comparison, arm))
    return element("div", heading, *body, id=sizes_id(comparison, arm))


def _size_row(comparison: Comparison, row: Row, arm: str, columns: int) -> Markup:
    """Return a curve's row: a cell for each size, or one wide cell where there is no size."""
    label = row.label if row.panel.curve.sized else f"{row.label} (no size)"
    baseline, points = row.panel.points(comparison.spec.baseline), row.panel.points(arm)
    cells = row.cells[:columns] if row.panel.curve.sized else row.cells[-1:]
    colspan = None if row.panel.curve.sized else max(columns, 1)
    shown = [
        _verdict_cell(
            cell,
            (baseline.get(cell.size), points.get(cell.size)) if cell else (None, None),
            row.panel,
            colspan=colspan,
        )
        for cell in cells
    ]
    return table_row([label, *shown], class_=row_class(cells))


def _verdict_cell(
    cell: Cell | None,
    points: tuple[Point | None, Point | None],
    panel: Panel,
    *,
    colspan: int | None = None,
) -> Markup:
    if cell is None:
        return element("td", element("span", "not measured", class_="quiet"), class_="none")
    ratio = DASH if cell.ratio is None else ratio_text(cell.ratio)
    mark = element("span", cell_mark(cell), aria_hidden="true", class_="mark")
    why = short_reason(cell) or _tail_reason(cell)
    return element(
        "td",
        element(
            "span",
            mark,
            element("b", ratio),
            element("span", f" {_short_word(cell)}", class_="word"),
            class_=f"chip {cell_class(cell)}",
        ),
        element("span", _interval(cell), class_="interval"),
        element("span", _medians_text(*points, panel), class_="value"),
        element("span", why, class_="why") if why else None,
        title="; ".join(filter(None, (why_text(cell), tail_text(cell)))) or None,
        colspan=colspan,
    )


def _tail_reason(cell: Cell) -> str:
    """Return the judgement of a cell's tail in few words."""
    said = cell.reads.partition(", ")[2]
    tail = cell.by_tail
    return f"{said}: {tail.statistic} {ratio_text(tail.ratio)}" if tail and tail.ratio else said


def _short_word(cell: Cell) -> str:
    """Return a verdict as short as a column is narrow; the section says what each means."""
    return {"slower": "SLOWER?", "open": "OPEN"}.get(cell_class(cell), str(cell.verdict))


def _interval(cell: Cell) -> str:
    if cell.low is None or cell.high is None:
        return f"n = {cell.blocks}"
    return f"{ratio_text(cell.low)} to {ratio_text(cell.high)}"


def _medians_text(baseline: Point | None, point: Point | None, panel: Panel) -> str:
    """Return the medians of the baseline and of the challenger: `1.2 → 1.9 µs`."""
    if point is None:
        return "no value"
    before = "" if baseline is None else f"{value_text(baseline.median)} → "
    value = f"{before}{value_text(point.median)} {unit_text(panel.curve.unit)}"
    if point.percent_of_limit is None:
        return value
    return f"{value} ({limit_text(point.percent_of_limit)} %)"


def over_limit(comparison: Comparison) -> bool:
    """Return whether any point is above the limit of its link."""
    return any(
        (point.percent_of_limit or 0) > WHOLE_LIMIT
        for panel in comparison.panels
        for arm in panel.arms
        for point in arm.points
    )


def limit_text(percent: float) -> str:
    """Return a share of a limit, with a star where it is more than all of it."""
    return f"{percent:.3g}{'*' if percent > WHOLE_LIMIT else ''}"


def unit_text(unit: str) -> str:
    """Return a unit as it is printed."""
    return "µs" if unit == "us" else unit


def _every_size(comparison: Comparison, panel: Panel, judgement: ArmJudgement) -> Markup:
    baseline = panel.points(comparison.spec.baseline)
    points = panel.points(judgement.arm)
    unit = unit_text(panel.curve.unit)
    limit = panel.limit is not None
    shown = {name for arm in panel.arms for point in arm.points for name in point.tails}
    tails = [name for name in STATISTICS if name in shown]
    head = [
        "size", f"{comparison.spec.baseline} ({unit})", f"{judgement.arm} ({unit})",
        *(("% of limit",) if limit else ()),
        "ratio", "interval", "margin", "noise floor", "pairs", "adjusted p", *tails, "tail",
        "verdict", "",
    ]  # fmt: skip
    rows = []
    for cell in judgement.cells:
        left, right = baseline.get(cell.size), points.get(cell.size)
        percent = None if right is None else right.percent_of_limit
        rows.append(
            table_row(
                [
                    size_text(cell.size),
                    DASH if left is None else value_text(left.median),
                    DASH if right is None else value_text(right.median),
                    *((DASH if percent is None else limit_text(percent),) if limit else ()),
                    DASH if cell.ratio is None else f"{cell.ratio:.3f}",
                    DASH if cell.low is None else f"{cell.low:.3f} to {cell.high:.3f}",
                    percent_text(cell.margin),
                    DASH if cell.floor is None else percent_text(cell.floor),
                    str(cell.blocks),
                    DASH if cell.p is None else f"{cell.p:.2g}",
                    *(_tail_values(left, right, name) for name in tails),
                    tail_text(cell) or DASH,
                    element("td", badge(cell.verdict, cell.reads)),
                    f"{SLOWER} {why_text(cell)}" if cell.seems_slower else why_text(cell),
                ],
                class_=row_class([cell]),
                id=row_id(comparison, panel, judgement.arm, cell.size),
            )
        )
    caption = (
        f"{curve_label(comparison, panel.curve)}, {panel.curve.placement}: "
        f"{judgement.arm} against {comparison.spec.baseline}"
    )
    return table(caption, head, rows, class_="numbers")


def _tail_values(left: Point | None, right: Point | None, name: str) -> str:
    """Return a statistic of the tail of both arms, the baseline's first."""
    values = (point.tails.get(name) if point else None for point in (left, right))
    return " / ".join(DASH if value is None else value_text(value) for value in values)


def why_text(cell: Cell) -> str:
    """Return why a cell is INCONCLUSIVE and what would settle it."""
    if cell.why is None or cell.verdict is not Verdict.INCONCLUSIVE:
        return ""
    text = reason_text(cell.why)
    if cell.launches_needed is None:
        return text
    return f"{text}; about {cell.launches_needed} launches per arm would settle it"


def regimes_part(comparison: Comparison) -> Markup | None:
    """Return the geometric means by range of sizes."""
    rows = [
        [
            f"{curve_label(comparison, panel.curve)}, {panel.curve.placement}",
            judgement.arm,
            regime.name,
            f"{regime.ratio:.3f}",
            f"{regime.low:.3f} to {regime.high:.3f}",
        ]
        for panel in comparison.panels
        for judgement in panel.judgements
        for regime in judgement.regimes
    ]
    if not rows:
        return None
    head = ("curve", "challenger", "range of sizes", "ratio", "interval")
    return details(
        "Summaries by range of sizes",
        element(
            "p",
            "Geometric mean of the ratios over all sizes of a range. A summary, not a verdict: "
            "a deficit at one size can hide in it.",
        ),
        table("Geometric mean of ratios by range of sizes", head, rows, class_="numbers"),
    )
