"""The report as one HTML file: no request leaves it, plotly.js travels inside, compressed."""

from __future__ import annotations

import base64
import functools
import gzip
import importlib.resources
from collections.abc import Sequence

from markupsafe import Markup

from stackproof.compare.model import Comparison
from stackproof.core.value import Value
from stackproof.knowledge.reference_curves import ReferenceCurve
from stackproof.report.charts import chart_data, fits, panel_id, reference_label
from stackproof.report.evidence import (
    checks_part,
    differences_part,
    discarded_part,
    fits_part,
    noise_part,
)
from stackproof.report.markup import element, joined, script_json
from stackproof.report.paths_taken import probes_part
from stackproof.report.provenance import method_part, provenance_part, repeat_part
from stackproof.report.ranking import (
    panel_numbers,
    paths_lead,
    placement_text,
    scaling_part,
    validated_part,
)
from stackproof.report.side_by_side import side_by_side_part
from stackproof.report.summary import facts_part, headlines_part, picture_part
from stackproof.report.tables import curve_label, placements
from stackproof.report.verdict import badge, regimes_part, tables_part, unit_text, verdict_part

# The page may run and style itself and ask nobody for anything: the browser enforces it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


class Page(Value, kw_only=False):
    """What a report is made of besides the comparison."""

    curves: Sequence[ReferenceCurve] = ()
    overlay: Sequence[str] = ()


def render_page(comparison: Comparison, page: Page) -> str:
    """Return the report as HTML text."""
    data = chart_data(comparison, page.curves, page.overlay)
    title = f"{comparison.spec.name}: {comparison.reads}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"stackproof {comparison.spec.stackproof}"),
        element("title", title),
        element("style", _asset("report.css")),
    )
    body = element(
        "body",
        element("a", "To the verdict", href="#verdict", class_="skip"),
        _header(comparison),
        element("main", *_main(comparison, page)),
        element("footer", element("p", _made_by(comparison))),
        element("script", script_json(data), type="application/json", id="chart-data"),
        element("script", _plotly(), type="text/plain", id="plotly"),
        element("script", _asset("folds.js")),
        element("script", _asset("ranks.js")),
        element("script", _asset("report.js")),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _main(comparison: Comparison, page: Page) -> tuple[Markup | None, ...]:
    return (
        verdict_part(comparison),
        tables_part(comparison),
        _curves_part(comparison, page),
        side_by_side_part(comparison),
        validated_part(comparison),
        regimes_part(comparison),
        fits_part(comparison),
        noise_part(comparison),
        discarded_part(comparison),
        differences_part(comparison),
        probes_part(comparison),
        checks_part(comparison),
        provenance_part(comparison),
        repeat_part(comparison),
        method_part(comparison),
    )


def _header(comparison: Comparison) -> Markup:
    spec = comparison.spec
    links = (
        ("Verdict", "verdict"), ("Sizes", "sizes"),
        (_curves_title(comparison), _curves_title(comparison).lower()), ("Noise", "noise"),
        ("Discarded", "discarded"), ("Differences", "differences"),
        ("Provenance", "provenance"), ("Method", "method"),
    )  # fmt: skip
    return element(
        "header",
        element("p", "Comparison of MPI stacks", class_="eyebrow"),
        element(
            "div",
            element("h1", spec.name),
            element("p", "Overall", badge(comparison.verdict, comparison.reads), class_="overall"),
            class_="title",
        ),
        headlines_part(comparison),
        element(
            "nav",
            joined((element("a", name, href=f"#{target}") for name, target in links), " "),
            element(
                "label",
                element("input", type="checkbox", id="failed-only", autocomplete="off"),
                " Only what FAILs",
            ),
            aria_label="Parts of the report",
        ),
        picture_part(comparison),
        facts_part(comparison),
    )


def _curves_title(comparison: Comparison) -> str:
    return "Transports" if comparison.rankings else "Curves"


def _curves_part(comparison: Comparison, page: Page) -> Markup:
    """Return all figures; where arms took different paths, with what that says of the paths."""
    sections = []
    for placement in placements(comparison):
        here = [p for p in comparison.panels if p.curve.placement == placement]
        figures = [_figure(comparison, comparison.panels.index(panel)) for panel in here]
        sections += [
            element("h3", placement_text(here[0].curve)),
            element("div", *figures, class_="figures"),
        ]
    sections += [part for part in (scaling_part(comparison),) if part is not None]
    shown = [
        reference
        for reference in page.curves
        if any(fits(reference, panel) for panel in comparison.panels)
    ]
    return element(
        "section",
        element("h2", _curves_title(comparison)),
        paths_lead(comparison),
        element(
            "p",
            "Line: median over launches. Band: smallest to largest launch. Below each: the ratio "
            "to the baseline with its interval; within the shaded zone arms count as equal. A "
            "triangle at an edge: a launch or an interval goes on beyond it. Drag to zoom, "
            "double-click to go back.",
        ),
        element(
            "div",
            element("div", id="legend", role="group", aria_label="Arms shown"),
            class_="controls",
        ),
        _reference_choice(shown, page.overlay),
        element(
            "noscript",
            element("p", "The curves need JavaScript; every number is in the tables above."),
        ),
        element("p", id="plot-problem", class_="warning", hidden=True),
        *sections,
        id=_curves_title(comparison).lower(),
    )


def _figure(comparison: Comparison, index: int) -> Markup:
    panel = comparison.panels[index]
    curve = panel.curve
    label = curve_label(comparison, curve)
    better = "higher is better" if curve.higher_is_better else "lower is better"
    return element(
        "figure",
        element(
            "figcaption",
            element("b", f"{label[:1].upper()}{label[1:]}"),
            f" {unit_text(curve.unit)}, {better}",
        ),
        element(
            "div",
            id=panel_id(index),
            class_="plot",
            role="img",
            aria_label=f"{label}, {curve.placement}: values and ratios by size; "
            "the same numbers are in the tables",
        ),
        panel_numbers(comparison, panel),
    )


def _reference_choice(
    references: Sequence[ReferenceCurve], overlay: Sequence[str]
) -> Markup | None:
    """Return the list of reference curves that fit a panel, to be switched on and off."""
    if not references:
        return None
    rows = [
        element(
            "label",
            element(
                "input",
                type="checkbox",
                class_="reference",
                value=reference.id,
                checked=reference.id in overlay,
            ),
            f" {reference_label(reference)}",
        )
        for reference in references
    ]
    return element(
        "details",
        element("summary", f"Published curves of other machines ({len(references)})"),
        element(
            "p",
            "To see what is usual elsewhere. They never take part in a verdict.",
            class_="small",
        ),
        element("div", *rows, class_="references"),
        class_="overlays",
        open=bool(overlay),
    )


def _made_by(comparison: Comparison) -> str:
    version = comparison.spec.stackproof
    return f"Made by stackproof {version}. This file is complete: it asks no server for anything."


@functools.cache
def _asset(name: str) -> Markup:
    folder = importlib.resources.files("stackproof.report.assets")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package


@functools.cache
def _plotly() -> Markup:
    """Return plotly.js, compressed and in base64: 0.5 MB instead of 1.2."""
    packed = gzip.compress(_asset("plotly/plotly-basic.min.js").encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode("ascii"))  # noqa: S704 - letters and digits
