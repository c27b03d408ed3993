"""The first screen of the report: what was compared on what, and every point in one picture."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from statistics import median

from markupsafe import Markup

from stackproof.compare.model import ArmJudgement, Cell, Comparison, Curve, Panel
from stackproof.core.numbers import percent_text, size_text
from stackproof.mpi import families
from stackproof.report.headline import headline
from stackproof.report.markup import element, joined
from stackproof.report.tables import (
    curve_label,
    margins_text,
    measured_sizes,
    place_label,
    presence_text,
)
from stackproof.report.verdict import (
    badge,
    cell_class,
    cell_title,
    cell_words,
    row_class,
    row_id,
    sizes_id,
)
from stackproof.site.model import FabricType

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

_NEAREST, _FARTHEST = 7.5, 36.0
"""Pixels from one size to the next, where there are many and where there are few."""

_SHEET, _GAP = 1010, 18
"""Pixels that all strips of a row may take together, and what is between two."""

_HEIGHT = 30
_REACH = 1.0
"""A strip shows ratios from half to double (powers of two); what lies beyond is at the edge."""

_FABRICS = {
    FabricType.SLINGSHOT_11.value: "Slingshot-11",
    FabricType.INFINIBAND.value: "InfiniBand",
    FabricType.ETHERNET.value: "Ethernet",
    FabricType.NONE.value: "",
}


def date_text(created: str) -> str:
    """Return a time of ISO 8601 in words: `2 January 2026, 03:04 UTC`; other text as it is."""
    try:
        found = dt.datetime.fromisoformat(created)
    except ValueError:
        return created
    if found.tzinfo is not None:
        found = found.astimezone(dt.UTC)
    zone = " UTC" if found.tzinfo else ""
    return f"{found.day} {_MONTHS[found.month - 1]} {found.year}, {found:%H:%M}{zone}"


def headlines_part(comparison: Comparison) -> Markup:
    """Return a sentence for each challenger, which leads to its tables."""
    items = []
    for arm in comparison.spec.challengers:
        name, _, sentence = headline(comparison, arm).partition(": ")
        target = f"#{sizes_id(comparison, arm)}" if arm in comparison.challengers else None
        items.append(element("li", element("a", name, href=target), f": {sentence}"))
    return element("ul", *items, class_="headlines")


def facts_part(comparison: Comparison) -> Markup:
    """Return when, with what and on what was measured, and how noisy it was."""
    spec = comparison.spec
    host = {key: str(value) for key, value in spec.host.items() if value}
    by = f", with stackproof {spec.stackproof}" if spec.stackproof else ""
    margins = margins_text(comparison).partition(": ")[2]
    facts = (
        ("measured", f"{date_text(spec.created)}{by}" if spec.created else by[2:]),
        ("machine", _machine(host)),
        ("fabric", _nodes(comparison, host)),
        ("stacks", _stacks(comparison)),
        ("launches", f"{presence_text(comparison).partition(': ')[2]}; margins {margins}"),
        ("noise", noise_text(comparison)),
    )
    rows = joined(
        (
            element("div", element("dt", name), element("dd", value))
            for name, value in facts
            if value
        ),
        "",
    )
    return element("dl", rows, class_="facts")


def _machine(host: Mapping[str, str]) -> str:
    count = host.get("cpus") or host.get("cores")
    load = host.get("load at start", "").split(" ")[0]
    parts = (
        host.get("cpu", ""),
        f"{count} CPUs" if count else "",
        host.get("machine", ""),
        host.get("kernel", ""),
        f"load {load} at the start" if load else "",
    )
    return ", ".join(part for part in parts if part)


def _nodes(comparison: Comparison, host: Mapping[str, str]) -> str:
    limits = {
        f"{float(value):,.0f} MB/s each way"
        for limit in comparison.spec.limits.values()
        if isinstance(value := limit.get("MB/s"), int | float)
    }
    rate = host.get("link rate", "")
    parts = (
        host.get("cluster", ""),
        host.get("scheduler", ""),
        "" if host.get("cluster") else host.get("nodes", ""),
        _FABRICS.get(host.get("fabric", ""), host.get("fabric", "")),
        f"links of {rate}" if rate and rate != "not limited" else "",
        " and ".join(sorted(limits)),
        f"delay {host['link delay']}"
        if host.get("link delay", "none added") != "none added"
        else "",
    )
    return ", ".join(dict.fromkeys(part for part in parts if part))


def _stacks(comparison: Comparison) -> str:
    """Return the arms by the version of their MPI, the baseline first."""
    found: dict[str, list[str]] = {}
    for arm in comparison.arms:
        if arm == comparison.spec.null:
            continue
        known = comparison.spec.arms.get(arm)
        mpi = known.mpi if known else {}
        family = families.REGISTRY.get(str(mpi.get("family", "")))
        title = family.title if family else str(mpi.get("family", ""))
        name = f"{title} {mpi.get('version', '')}".strip()
        role = " (baseline)" if arm == comparison.spec.baseline else ""
        found.setdefault(name, []).append(f"{arm}{role}")
    return "; ".join(
        f"{', '.join(arms)}: {name}" if name else ", ".join(arms) for name, arms in found.items()
    )


def noise_text(comparison: Comparison) -> str:
    """Return how far the baseline is from itself; that there is no null arm where there is none."""
    differences = [
        (max(cell.ratio, 1 / cell.ratio) - 1, panel.curve, cell.size)
        for panel in comparison.panels
        if (null := panel.judgement(comparison.spec.null or "")) is not None
        for cell in null.cells
        if cell.ratio
    ]
    if not differences:
        return "not known: there is no null arm" if comparison.challengers else ""
    worst, curve, size = max(differences, key=lambda one: one[0])
    middle = median(difference for difference, _, _ in differences)
    at = f" {size_text(size)}" if curve.sized else ""
    found = comparison.verdict_of(comparison.spec.null or "")
    total = found.passed + found.failed + found.inconclusive
    return (
        f"{comparison.spec.baseline} against itself differs by {percent_text(middle)} (median) and "
        f"by up to {percent_text(worst)} ({curve_label(comparison, curve)} {curve.placement}{at}); "
        f"it is the same within the margins at {found.passed} of {total} points"
    )


# --- every point in one picture -------------------------------------------------------------


def picture_part(comparison: Comparison) -> Markup | None:
    """Return a strip for each curve and challenger, with a mark for each size.

    The height of a mark is the ratio. None where nothing was compared.
    """
    arms = [arm for arm in comparison.challengers if _judged(comparison, arm)]
    if not arms:
        return None
    sizes = measured_sizes(comparison)
    bodies = []
    groups: dict[str, list[Panel]] = {}
    for panel in comparison.panels:
        groups.setdefault(place_label(comparison, panel.curve), []).append(panel)
    for place, panels in groups.items():
        rows = [element("th", place, colspan=len(arms) + 1, scope="rowgroup", class_="place")]
        bodies.append(
            element(
                "tbody",
                element("tr", *rows),
                *(_row(comparison, panel, arms, sizes) for panel in panels),
            )
        )
    head = element("tr", element("td", ""), *(_arm_head(comparison, arm) for arm in arms))
    table = element(
        "table",
        element("caption", "Every point: all curves, all challengers", class_="hidden"),
        element("thead", head),
        *bodies,
        element("tfoot", _scale(sizes, len(arms))) if len(sizes) > 1 else None,
        class_="strips",
    )
    return element(
        "section",
        _legend(comparison),
        element(
            "div", table, class_="scroll", tabindex=0, role="region",
            aria_label="Every point in one picture",
        ),
        id="picture",
        aria_label="Every point in one picture",
    )  # fmt: skip


def _judged(comparison: Comparison, arm: str) -> bool:
    return any(panel.judgement(arm) is not None for panel in comparison.panels)


def _arm_head(comparison: Comparison, arm: str) -> Markup:
    found = comparison.verdict_of(arm)
    name = "null arm" if found.is_null else arm
    return element("th", element("span", name), " ", badge(found.verdict, found.reads), scope="col")


def _row(comparison: Comparison, panel: Panel, arms: Sequence[str], sizes: Sequence[int]) -> Markup:
    cells = [
        element("td", "", class_="none")
        if (judgement := panel.judgement(arm)) is None
        else element("td", _strip(comparison, panel, judgement, sizes), _lowest(judgement))
        for arm in arms
    ]
    judged = [cell for judgement in panel.judgements for cell in judgement.cells]
    head = element("th", panel.curve.title, scope="row")
    return element("tr", head, *cells, class_=row_class(judged))


def _lowest(judgement: ArmJudgement) -> Markup | None:
    """Return the lowest ratio of a strip, whose marks end at half and double."""
    cells = [cell for cell in judgement.cells if cell.ratio]
    if not cells:
        return None
    worst = min(cells, key=lambda cell: cell.ratio or 1.0)
    return element("span", f"{worst.ratio:.2g}", class_=f"lowest {cell_class(worst)}")


def _step(sizes: Sequence[int], arms: int) -> float:
    each = _SHEET / max(arms, 1) - _GAP
    return min(max(each / max(len(sizes), 1), _NEAREST), _FARTHEST)


def _strip(
    comparison: Comparison, panel: Panel, judgement: ArmJudgement, sizes: Sequence[int]
) -> Markup:
    """Return one strip as a picture with its words; each mark leads to the row of its numbers."""
    curve = panel.curve
    step = _step(sizes, sum(_judged(comparison, arm) for arm in comparison.challengers))
    places = {size: (at + 0.5) * step for at, size in enumerate(sizes)}
    width = max(step * len(sizes), _FARTHEST)
    margin = comparison.margins[curve.kind]
    top, bottom = _height(1 / (1 - margin)), _height(1 - margin)
    marks = [
        element(
            "a",
            _mark(curve, cell, places.get(cell.size, width / 2) if curve.sized else width / 2),
            href=f"#{row_id(comparison, panel, judgement.arm, cell.size)}",
            tabindex=-1,
        )
        for cell in judgement.cells
    ]
    return element(
        "svg",
        element("rect", x="0", y=f"{top:.1f}", width=f"{width:.0f}",
                height=f"{bottom - top:.1f}", class_="zone"),
        element("line", x1="0", x2=f"{width:.0f}", y1=f"{_HEIGHT / 2}", y2=f"{_HEIGHT / 2}",
                class_="one"),
        *marks,
        viewBox=f"0 0 {width:.0f} {_HEIGHT}", style=f"max-width:{width:.0f}px",
        role="img", aria_label=_strip_words(comparison, curve, judgement),
    )  # fmt: skip


def _height(ratio: float) -> float:
    """Return where a ratio stands in a strip: 1 in the middle, better above."""
    bound = max(-_REACH, min(_REACH, math.log2(ratio)))
    return _HEIGHT / 2 - bound / _REACH * (_HEIGHT / 2 - 5)


_SHAPES = {
    "pass": "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0",
    "fail": "M-3.2-3.2L3.2 3.2M-3.2 3.2L3.2-3.2",
    "slower": "M-3.6-2.6L3.6-2.6L0 3.6z",
    "open": "M-3-0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
}


def _mark(curve: Curve, cell: Cell, x: float) -> Markup:
    kind = cell_class(cell)
    y = _HEIGHT / 2 if not cell.ratio else _height(cell.ratio)
    return element(
        "path",
        element("title", cell_title(curve, cell)),
        d=_SHAPES[kind],
        transform=f"translate({x:.1f} {y:.1f})",
        class_=kind,
    )


def _strip_words(comparison: Comparison, curve: Curve, judgement: ArmJudgement) -> str:
    words = [cell_words(cell) for cell in judgement.cells]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"{judgement.arm}, {curve_label(comparison, curve)}, {curve.placement}: {counts}"


def _scale(sizes: Sequence[int], count: int) -> Markup:
    """Return the row that says from which to which size strips reach."""
    width = _step(sizes, count) * len(sizes)
    ends = element(
        "span",
        element("span", size_text(sizes[0])),
        element("span", size_text(sizes[-1])),
        class_="ends",
        style=f"max-width:{width:.0f}px",
    )
    return element("tr", element("td", ""), *(element("td", ends) for _ in range(count)))


def _legend(comparison: Comparison) -> Markup:
    kinds = (
        ("pass", "PASS: as fast within the margin"),
        ("fail", "FAIL: slower, proven"),
        ("slower", "slower, not proven"),
        ("open", "undecided"),
    )
    items = [
        element(
            "span",
            element(
                "svg",
                element("path", d=_SHAPES[kind], transform="translate(6 6)", class_=kind),
                width="12", height="12", aria_hidden="true",
            ),
            f" {text}",
            class_="key",
        )
        for kind, text in kinds
    ]  # fmt: skip
    return element(
        "p",
        *items,
        element(
            "span",
            f"One mark per size. The line is {comparison.spec.baseline}, the zone the margin; "
            "higher is better, from half to twice as good (what lies beyond stands at the edge). "
            "The number is the lowest ratio. A mark leads to its row.",
        ),
        class_="legend small",
    )
