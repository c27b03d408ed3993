"""The part of the report that lets the reader doubt: noise, fits, discarded, differences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from markupsafe import Markup

from stackproof.compare.model import ArmLaunch, Comparison
from stackproof.core.numbers import percent_text, size_text, value_text
from stackproof.report.markup import DASH, details, element, joined, table
from stackproof.report.tables import curve_label
from stackproof.report.verdict import OVER_LIMIT, limit_text, over_limit
from stackproof.results.measurement import Check, State

_ABSENT = "not set"


def noise_part(comparison: Comparison) -> Markup:
    """Return the null arm's noise floor by curve, and the outliers that stayed in."""
    children: list[Markup | None] = [
        element(
            "p",
            "The null arm is the baseline once more. What it differs from itself is noise, and a "
            "challenger must be slower by more than that to FAIL.",
        )
    ]
    rows = []
    for panel in comparison.panels:
        null = panel.judgement(comparison.spec.null or "")
        ratios = [(abs(c.ratio - 1), c) for c in (null.cells if null else ()) if c.ratio]
        if not ratios or null is None:
            continue
        worst, cell = max(ratios, key=lambda pair: pair[0])
        failed = sum(cell.verdict.value == "FAIL" for cell in null.cells)
        rows.append(
            [
                f"{curve_label(comparison, panel.curve)}, {panel.curve.placement}",
                percent_text(median(difference for difference, _ in ratios)),
                percent_text(worst),
                size_text(cell.size) if panel.curve.sized else DASH,
                percent_text(comparison.margins[panel.curve.kind]),
                str(failed),
            ]
        )
    if rows:
        head = ("curve", "median over sizes", "largest", "at", "margin", "FAIL")
        children.append(table("How far the baseline is from itself", head, rows, class_="numbers"))
    else:
        children.append(element("p", "No null arm was measured.", class_="quiet"))
    children.append(_outliers(comparison))
    return element("section", element("h2", "Noise"), *children, id="noise")


def _outliers(comparison: Comparison) -> Markup:
    rows = []
    total = values = 0
    for panel in comparison.panels:
        for arm in panel.arms:
            blocks: dict[int, int] = {}
            for point in arm.points:
                values += len(point.values)
                for block in point.outliers:
                    blocks[block] = blocks.get(block, 0) + 1
            total += sum(blocks.values())
            if blocks:
                rows.append(
                    [
                        f"{curve_label(comparison, panel.curve)}, {panel.curve.placement}",
                        arm.arm,
                        str(sum(blocks.values())),
                        ", ".join(f"{b} ({n} sizes)" for b, n in sorted(blocks.items())),
                    ]
                )
    text = (
        f"{total} of {values} per-launch medians lie outside Tukey's fences (beyond the quartiles "
        "by more than 1.5 times their distance). None was removed: medians and intervals include "
        "them."
    )
    if not rows:
        return element("p", text)
    head = ("curve", "arm", "outliers", "in block")
    return details(f"Outliers: {total}", element("p", text), table("Outliers", head, rows))


def fits_part(comparison: Comparison) -> Markup | None:
    """Return Hockney's parameters and the best bandwidth against the limit."""
    rows = []
    for panel in comparison.panels:
        for arm in panel.arms:
            best = max((p.percent_of_limit or 0 for p in arm.points), default=0)
            fit = arm.fit
            if fit is None:
                continue
            rows.append(
                [
                    f"{curve_label(comparison, panel.curve)}, {panel.curve.placement}",
                    arm.arm,
                    DASH if fit.t0_us is None else f"{value_text(fit.t0_us)} µs",
                    DASH if fit.bandwidth is None else f"{value_text(fit.bandwidth)} MB/s",
                    DASH if fit.half_size is None else size_text(round(fit.half_size)),
                    DASH if panel.limit is None else f"{value_text(panel.limit)} MB/s",
                    DASH if not best else f"{limit_text(best)} %",
                ]
            )
    if not rows:
        return None
    head, rows = filled(("curve", "arm", "T0", "B∞", "n½", "limit", "best, of limit"), rows)
    sources = dict.fromkeys(
        f"{panel.curve.placement}: {panel.limit_source}"
        for panel in comparison.panels
        if panel.limit_source
    )
    return element(
        "section",
        element("h2", "Cost model and limits"),
        element(
            "p",
            "T(s) = T0 + s / B∞: T0 from sizes up to 192 B of the latency curve, B∞ from sizes of "
            "256 KiB and more; n½ is the size at which half of the bandwidth is reached.",
        ),
        table("Hockney's model by arm", head, rows, class_="numbers"),
        joined(element("p", f"Limit, {source}", class_="small") for source in sources),
        element("p", OVER_LIMIT, class_="small") if over_limit(comparison) else None,
        id="model",
    )


def filled(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return a table without the columns in which no row has anything."""
    kept = [at for at in range(len(head)) if any(row[at] not in {DASH, ""} for row in rows)]
    return tuple(head[at] for at in kept), [[row[at] for at in kept] for row in rows]


def discarded_part(comparison: Comparison) -> Markup:
    """Return every launch that did not enter, with the reason."""
    if not comparison.discarded:
        body = element("p", "Nothing was discarded.")
    else:
        head = ("what", "arm", "block", "placement", "program", "reason", "evidence")
        body = table(
            "Discarded launches",
            head,
            (
                [
                    entry.what,
                    entry.arm,
                    "" if entry.block is None else str(entry.block),
                    entry.placement,
                    entry.program,
                    element("td", element("code", entry.reason)),
                    entry.evidence,
                ]
                for entry in comparison.discarded
            ),
        )
    return element(
        "section",
        element("h2", f"Discarded: {len(comparison.discarded)}"),
        element(
            "p",
            "A launch whose validation failed, or that did not run as it was asked to, cannot "
            "enter; its partner in the block then counts for nothing either.",
        ),
        body,
        id="discarded",
    )


def differences_part(comparison: Comparison) -> Markup:
    """Return what differs between the arms, side by side, and what is equal."""
    arms = comparison.arms
    differ: list[list[str]] = []
    equal: list[list[str]] = []
    for name, values in _settings(comparison):
        row = [name, *(values.get(arm, _ABSENT) for arm in arms)]
        (equal if len(set(row[1:])) == 1 else differ).append(row)
    head = ("setting", *arms)
    return element(
        "section",
        element("h2", "Differences between the arms"),
        details(
            f"{len(differ)} settings differ",
            table(
                "Settings that differ", head, (_marked(row) for row in differ), class_="settings"
            ),
        )
        if differ
        else element("p", "No setting differs.", class_="quiet"),
        details(
            f"{len(equal)} settings are the same in all arms",
            table("Settings that are the same", head, equal, class_="settings"),
        )
        if equal
        else None,
        id="differences",
    )


def _marked(row: list[str]) -> list[str | Markup]:
    return [
        row[0],
        *(
            element("td", element("span", cell, class_="quiet")) if cell == _ABSENT else cell
            for cell in row[1:]
        ),
    ]


def _settings(comparison: Comparison) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Yield every setting: its name and its value by arm."""
    specs = comparison.spec.arms
    facts: dict[str, dict[str, str]] = {}
    for arm in comparison.arms:
        spec = specs.get(arm)
        if spec is None:
            continue
        values: dict[str, object] = {
            **{f"MPI {key}": value for key, value in spec.mpi.items()},
            "image": spec.image,
            "image SHA-256": spec.image_sha256,
            "lock digest": spec.lock_digest,
            "view": spec.view,
            "transport asked for": spec.transport,
            "link rate of this arm": spec.rate,
        }
        for key, value in values.items():
            if value:
                facts.setdefault(key, {})[arm] = plain_value(value)
    yield from facts.items()
    yield from _launch_settings(comparison.launches)


def _launch_settings(launches: Iterable[ArmLaunch]) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Yield what the launches set and saw; once where it is the same at all placements."""
    found: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
    for launch in launches:
        place = (launch.placement, launch.program)
        seen = {
            "MPI library (as it reports)": launch.mpi_library.split("\n")[0],
            "libraries in the process": ", ".join(launch.libraries),
            "benchmark version": launch.program_version,
            **{f"environment {key}": value for key, value in sorted(launch.env.items())},
        }
        for key, value in seen.items():
            if value:
                found.setdefault(key, {}).setdefault(place, {})[launch.arm] = value
    for key, by_place in found.items():
        variants = list(by_place.values())
        if all(variant == variants[0] for variant in variants):
            yield key, variants[0]
            continue
        for (placement, program), values in sorted(by_place.items()):
            yield f"{key} ({placement}, {program})", values


def plain_value(value: object) -> str:
    """Return a value of a document as text: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def checks_part(comparison: Comparison) -> Markup:
    """Return what was checked of the launches, with the evidence."""
    rows = []
    for launch in comparison.launches:
        by_name: dict[str, list[Check]] = {}
        for check in launch.checks:
            by_name.setdefault(check.name, []).append(check)
        for name, checks in by_name.items():
            worst = min(checks, key=lambda check: _ORDER[check.state])
            more = f" (and {len(checks) - 1} more)" if len(checks) > 1 else ""
            rows.append(
                [
                    name,
                    launch.arm,
                    launch.placement,
                    launch.program,
                    element("td", worst.state.value, class_=f"state {_STATE_CLASS[worst.state]}"),
                    worst.evidence + more,
                ]
            )
    head = ("check", "arm", "placement", "program", "answer", "evidence")
    return element(
        "section",
        element("h2", "Checks and their evidence"),
        element(
            "p",
            "The worst answer over all launches of an arm: that the bytes were right, that the "
            "message took the path it was asked to take, that the ranks were where they belong.",
        ),
        details(f"{len(rows)} checks", table("Checks", head, rows, class_="settings"), open_=False)
        if rows
        else element("p", "No check was recorded.", class_="quiet"),
        id="checks",
    )


_ORDER = {State.BAD: 0, State.UNKNOWN: 1, State.OK: 2}
_STATE_CLASS = {State.BAD: "fail", State.UNKNOWN: "open", State.OK: "pass"}
