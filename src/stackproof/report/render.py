"""A comparison to what people and programs read: HTML, JSON, CSV, Markdown, terminal text.

The page is one HTML file: no request leaves it, plotly.js travels inside, compressed. The templates
hold all markup. They get values, and take words and numbers from the modules below.
"""

from __future__ import annotations

import base64
import functools
import gzip
import importlib.resources
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stackproof.compare import model
from stackproof.compare.model import Comparison
from stackproof.core import noun
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.numbers import percent_text, size_text, value_text
from stackproof.knowledge.reference_curves import ReferenceCurve
from stackproof.report import charts, evidence, headline, ranking, summary, tables, words
from stackproof.report.markdown import render_markdown
from stackproof.report.ranking import render_paths_csv
from stackproof.report.tables import render_csv
from stackproof.report.terminal import terminal_verdicts

if TYPE_CHECKING:
    import jinja2


__all__ = [
    "render_csv",
    "render_html",
    "render_json",
    "render_markdown",
    "render_paths_csv",
    "terminal_verdicts",
]


def render_html(
    comparison: Comparison,
    *,
    curves: Sequence[ReferenceCurve] = (),
    overlay: Sequence[str] = (),
) -> str:
    """Return the report as one self-contained HTML text.

    `curves` can be chosen in the page, `overlay` are the ids of those shown from the start.
    Raises `StackproofError` (INVALID_VALUE) for an id that is none of them.
    """
    known = [curve.id for curve in curves]
    unknown = [
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"there is no reference curve `{name}`",
            hint=f"there are: {', '.join(known)}" if known else "no reference curves were given",
        )
        for name in overlay
        if name not in known
    ]
    if unknown:
        raise StackproofError(*unknown)
    shown = [curve for curve in curves if any(charts.fits(curve, p) for p in comparison.panels)]
    return (
        _environment()
        .get_template("page.html")
        .render(
            comparison=comparison,
            spec=comparison.spec,
            chart_data=charts.chart_data(comparison, curves, overlay),
            references=shown,
            overlay=overlay,
            plotly=_plotly(),
        )
    )


def render_json(comparison: Comparison) -> str:
    """Return the comparison as JSON (schema `stackproof/comparison/1`)."""
    return noun.to_json(comparison)


@functools.cache
def _asset(name: str) -> str:
    folder = importlib.resources.files("stackproof.report.assets")
    return folder.joinpath(name).read_text(encoding="utf-8")


_MODULES = {
    "charts": charts, "evidence": evidence, "headline": headline, "model": model,
    "ranking": ranking, "summary": summary, "tables": tables, "words": words,
}  # fmt: skip

_FILTERS: dict[str, Callable[..., str]] = {
    "asset": _asset, "percent": percent_text, "shell": shlex.join, "size": size_text,
    "unit": words.unit_text, "value": value_text,
}  # fmt: skip


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - slow to import, and only a page needs it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("stackproof.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= _MODULES
    environment.filters |= _FILTERS
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "allow_nan": False, "separators": (",", ":"),
    }  # fmt: skip
    return environment


@functools.cache
def _plotly() -> str:
    """Return plotly.js, compressed and in base64: 0.5 MB instead of 1.2."""
    packed = gzip.compress(_asset("plotly/plotly-basic.min.js").encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")
