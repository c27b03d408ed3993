"""The part of the report that says what the shapes of curves tell, and where thresholds lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from stackproof.compare.curve_shapes import Mark, memory_of
from stackproof.compare.model import ArmLaunch, Comparison, Panel
from stackproof.core.numbers import size_text
from stackproof.core.value import Value
from stackproof.knowledge.model import CurveLevel
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.report.markup import details, element, joined, table
from stackproof.report.tables import curve_label
from stackproof.results.case import Locality
from stackproof.site.model import FabricType

COMMAND_BYTES = 192
"""What a command of the Slingshot-11 NIC carries itself (shs-cassini-headers)."""

_GET_MIN = ("FI_CXI_RDZV_GET_MIN", 2049)
_STATES = {
    CurveLevel.FAULT: "fail",
    CurveLevel.NOISE: "open",
    CurveLevel.INFORMATION: "",
    CurveLevel.HEALTHY: "pass",
}
_DRAWN = frozenset({CurveLevel.FAULT, CurveLevel.NOISE})
_FEW_PLACES = 3


class _Threshold(Value, kw_only=False):
    """A variable that holds a size at which an MPI changes its way; None is any memory."""

    title: str
    locality: Locality
    memory: BufferPlace | None = None


_THRESHOLDS: Mapping[str, _Threshold] = {
    "FI_CXI_RDZV_THRESHOLD": _Threshold("eager limit of cxi", Locality.INTER),
    "FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD": _Threshold(
        "copies of the CPU", Locality.INTER, BufferPlace.DEVICE
    ),
    "MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD": _Threshold("eager limit of MPICH", Locality.INTER),
    "MPIR_CVAR_CH4_IPC_XPMEM_P2P_THRESHOLD": _Threshold("XPMEM", Locality.INTRA, BufferPlace.HOST),
    "MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD": _Threshold("CMA", Locality.INTRA, BufferPlace.HOST),
    "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD": _Threshold(
        "GPU to GPU", Locality.INTRA, BufferPlace.DEVICE
    ),
    "MPICH_SMP_SINGLE_COPY_SIZE": _Threshold("single copy", Locality.INTRA, BufferPlace.HOST),
    "MPICH_GPU_IPC_THRESHOLD": _Threshold("GPU to GPU", Locality.INTRA, BufferPlace.DEVICE),
    "FI_SHM_MAX_GDRCOPY_SIZE": _Threshold("GDRCopy", Locality.INTRA, BufferPlace.DEVICE),
}


def lines_of(comparison: Comparison, panel: Panel) -> list[tuple[int, str]]:
    """Return the sizes at which something changes on a panel, and what, by what the runs set.

    A variable that is not set gives no line: its default is not known for sure.
    """
    curve = panel.curve
    if not curve.sized:
        return []
    found: dict[tuple[int, str], None] = {}
    between = curve.locality == Locality.INTER
    if between and comparison.spec.host.get("fabric") == FabricType.SLINGSHOT_11:
        found[COMMAND_BYTES, "command of the NIC"] = None
    for launch in comparison.launches:
        if (launch.placement, launch.program) == (curve.placement, curve.program):
            for size, text in _set_by(launch, curve.locality):
                found[size, text] = None
    return sorted(found)


def _set_by(launch: ArmLaunch, locality: str) -> Iterator[tuple[int, str]]:
    memory = memory_of(launch.host_facts)
    for name, threshold in _THRESHOLDS.items():
        value = launch.env.get(name, "")
        if not value.isdecimal() or threshold.locality != locality:
            continue
        if threshold.memory not in {None, memory}:
            continue
        size = int(value)
        if name == "FI_CXI_RDZV_THRESHOLD":
            least = launch.env.get(_GET_MIN[0], "")
            size += int(least) if least.isdecimal() else _GET_MIN[1]
        if size > 0:
            yield size, threshold.title


def marks_on(panel: Panel, marks: Sequence[Mark]) -> list[dict[str, str | int]]:
    """Return what is drawn on a panel: faults and dips that have a place on it.

    What is noise, and is seen on many curves, is shown by their bands already.
    """
    curve = panel.curve
    often = Counter(mark.rule.id for mark in marks if mark.rule.level is CurveLevel.NOISE)
    return [
        {"arm": mark.arm, "size": mark.size, "rule": mark.rule.id, "title": mark.rule.title}
        for mark in marks
        if (mark.placement, mark.program, mark.benchmark) == curve.key
        and mark.size is not None
        and mark.rule.level in _DRAWN
        and often[mark.rule.id] <= _FEW_PLACES
    ]


def shapes_part(comparison: Comparison, marks: Sequence[Mark]) -> Markup | None:
    """Return every rule that holds on a curve, faults first; None when none does."""
    if not marks:
        return None
    order = list(CurveLevel)
    labels = {panel.curve.key: curve_label(comparison, panel.curve) for panel in comparison.panels}
    groups: dict[str, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: order.index(mark.rule.level)):
        groups.setdefault(mark.rule.id, []).append(mark)
    rows = [_row(group, labels) for group in groups.values()]
    head = ("rule", "level", "what is seen", "where", "what it means")
    return element(
        "section",
        element("h2", "What the shapes of the curves tell"),
        element(
            "p",
            "Rules that hold, with what decides. Where ranks were and in which memory is taken "
            "from how they were placed. They take no part in a verdict; ",
            element("code", "stackproof explain RULE"),
            " says more, and ",
            element("code", "stackproof doctor"),
            " looks for the cause.",
        ),
        table("Rules that hold on a curve", head, rows),
        id="shapes",
    )


def _row(marks: Sequence[Mark], labels: Mapping[tuple[str, str, str], str]) -> list[str | Markup]:
    """Return one row for a rule, with all places at which it holds."""
    rule = marks[0].rule
    related = f" ({', '.join(rule.related)})" if rule.related else ""
    return [
        rule.id,
        element("td", rule.level.value, class_=f"state {_STATES[rule.level]}"),
        rule.title,
        element("td", _places(marks, labels)),
        f"{rule.meaning}{related}",
    ]


def _places(marks: Sequence[Mark], labels: Mapping[tuple[str, str, str], str]) -> Markup:
    """Return where a rule holds: a list, folded below its count where it is long."""
    items = []
    for mark in marks:
        label = labels.get((mark.placement, mark.program, mark.benchmark), mark.benchmark)
        size = "" if mark.size is None else f" at {size_text(mark.size)}"
        items.append(element("li", f"{mark.arm}, {label}, {mark.placement}{size}: {mark.seen}"))
    places = element("ul", joined(items), class_="places")
    if len(marks) <= _FEW_PLACES:
        return places
    curves = {(one.arm, one.placement, one.program, one.benchmark) for one in marks}
    arms = ", ".join(dict.fromkeys(one.arm for one in marks))
    return details(f"{len(marks)} places on {len(curves)} curves of {arms}", places)


def markdown_lines(marks: Sequence[Mark]) -> Iterator[str]:
    """Yield a line for each rule that is a fault, with the places at which it holds."""
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.rule.level is CurveLevel.FAULT:
            groups.setdefault(mark.rule.id, []).append(mark)
    for found in groups.values():
        rule = found[0].rule
        places = []
        for mark in found:
            size = "" if mark.size is None else f" at {size_text(mark.size)}"
            places.append(f"{mark.arm}, {mark.benchmark}, {mark.placement}{size}: {mark.seen}")
        yield f"{rule.id} {rule.title} ({'; '.join(places)}): {rule.meaning}"
