"""The first screen of the report: what was compared on what, and every point in one picture."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from stackproof.compare.model import ArmJudgement, Comparison, Panel
from stackproof.core.numbers import percent_text, size_text
from stackproof.core.value import Value
from stackproof.mpi import families
from stackproof.report.headline import describe_reason, headline
from stackproof.report.tables import (
    curve_label,
    margins_text,
    measured_sizes,
    place_label,
    presence_text,
)
from stackproof.report.words import (
    cell_class,
    cell_title,
    cell_words,
    row_id,
    short_ratio,
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


def introduce_challengers(comparison: Comparison) -> Iterator[tuple[str, str | None, str, str]]:
    """Yield each challenger, the target of its link, the sentence on it, and the reason."""
    for arm in comparison.spec.challengers:
        name, _, sentence = headline(comparison, arm).partition(": ")
        target = f"#{sizes_id(comparison, arm)}" if arm in comparison.challengers else None
        yield name, target, sentence, describe_reason(comparison, arm)


def list_facts(comparison: Comparison) -> list[tuple[str, str]]:
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
    return [(name, text) for name, text in facts if text]


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
        if cell.ratio and cell.is_judged
    ]
    if not differences:
        why = ": there is no null arm (the baseline once more)" if not comparison.spec.null else ""
        return f"not known{why}" if comparison.challengers else ""
    worst, curve, size = max(differences, key=lambda one: one[0])
    middle = median(difference for difference, _, _ in differences)
    at = f" {size_text(size)}" if curve.sized else ""
    found = comparison.verdict_of(comparison.spec.null or "")
    total = found.passed + found.failed + found.inconclusive
    return (
        f"{comparison.spec.baseline} against itself differs by {percent_text(middle)} (median) and "
        f"by up to {percent_text(worst)} ({curve_label(comparison, curve)} {curve.placement}{at}); "
        f"it is proven to be the same within the margins at {found.passed} of {total} points"
    )


# --- every point in one picture -------------------------------------------------------------


class Strip(Value):
    """One challenger's curve as a picture of marks, in pixels; the height of a mark is the ratio.

    A mark has the id of the row that it leads to, its style class, its place and its title.
    `lowest` is the lowest ratio, as the marks end at half and double.
    """

    width: str
    height: int
    zone_top: str
    zone_height: str
    words: str
    marks: tuple[tuple[str, str, str, str, str], ...]
    lowest: str
    lowest_kind: str


class Scale(Value):
    """The smallest and the largest size of all strips, and how far they are apart in pixels."""

    width: str
    first: str
    last: str


def list_judged_arms(comparison: Comparison) -> list[str]:
    """Return the arms that have a strip: those with a judgement of any curve."""
    return [
        arm
        for arm in comparison.challengers
        if any(panel.judgement(arm) is not None for panel in comparison.panels)
    ]


def group_panels(comparison: Comparison) -> list[tuple[str, list[Panel]]]:
    """Return the panels by placement, and by program where there are several."""
    groups: dict[str, list[Panel]] = {}
    for panel in comparison.panels:
        groups.setdefault(place_label(comparison, panel.curve), []).append(panel)
    return list(groups.items())


def draw_strip(comparison: Comparison, panel: Panel, judgement: ArmJudgement) -> Strip:
    """Return one strip with its words."""
    curve = panel.curve
    sizes = measured_sizes(comparison)
    step = _step(comparison, sizes)
    places = {size: (at + 0.5) * step for at, size in enumerate(sizes)} if curve.sized else {}
    width = max(step * len(sizes), _FARTHEST)
    margin = comparison.margins[curve.kind]
    top, bottom = _height(1 / (1 - margin)), _height(1 - margin)
    worst = min((c for c in judgement.cells if c.ratio), key=lambda c: c.ratio or 1, default=None)
    return Strip(
        width=f"{width:.0f}",
        height=_HEIGHT,
        zone_top=f"{top:.1f}",
        zone_height=f"{bottom - top:.1f}",
        words=_strip_words(comparison, panel, judgement),
        marks=tuple(
            (
                row_id(comparison, panel, judgement.arm, cell.size),
                cell_class(cell),
                f"{places.get(cell.size, width / 2):.1f}",
                f"{_height(cell.ratio):.1f}",
                cell_title(curve, cell),
            )
            for cell in judgement.cells
        ),
        lowest=short_ratio(worst) if worst else "",
        lowest_kind=cell_class(worst) if worst else "",
    )


def measure_scale(comparison: Comparison) -> Scale | None:
    """Return from which to which size strips reach; None where there are not two sizes."""
    sizes = measured_sizes(comparison)
    if len(sizes) < 2:
        return None
    width = _step(comparison, sizes) * len(sizes)
    return Scale(width=f"{width:.0f}", first=size_text(sizes[0]), last=size_text(sizes[-1]))


def _step(comparison: Comparison, sizes: Sequence[int]) -> float:
    each = _SHEET / max(len(list_judged_arms(comparison)), 1) - _GAP
    return min(max(each / max(len(sizes), 1), _NEAREST), _FARTHEST)


def _height(ratio: float | None) -> float:
    """Return where a ratio stands in a strip: 1, and none, in the middle, better above."""
    bound = max(-_REACH, min(_REACH, math.log2(ratio or 1)))
    return _HEIGHT / 2 - bound / _REACH * (_HEIGHT / 2 - 5)


def _strip_words(comparison: Comparison, panel: Panel, judgement: ArmJudgement) -> str:
    words = [cell_words(cell) for cell in judgement.cells]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    label = curve_label(comparison, panel.curve)
    return f"{judgement.arm}, {label}, {panel.curve.placement}: {counts}"
