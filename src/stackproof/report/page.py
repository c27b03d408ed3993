"""The report as one HTML file: no request leaves it, plotly.js travels inside, compressed.

The templates hold all markup. They get values, and take words and numbers from the modules below.
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
from stackproof.core.numbers import percent_text, size_text, value_text
from stackproof.knowledge.reference_curves import ReferenceCurve
from stackproof.report import charts, evidence, ranking, summary, tables, words

if TYPE_CHECKING:
    import jinja2


@functools.cache
def _asset(name: str) -> str:
    folder = importlib.resources.files("stackproof.report.assets")
    return folder.joinpath(name).read_text(encoding="utf-8")


_MODULES = {
    "charts": charts, "evidence": evidence, "model": model, "ranking": ranking,
    "summary": summary, "tables": tables, "words": words,
}  # fmt: skip

_FILTERS: dict[str, Callable[..., str]] = {
    "asset": _asset, "percent": percent_text, "shell": shlex.join, "size": size_text,
    "unit": words.unit_text, "value": value_text,
}  # fmt: skip


def render_page(
    comparison: Comparison, curves: Sequence[ReferenceCurve], overlay: Sequence[str]
) -> str:
    """Return the report as HTML text; `overlay` are the ids of curves shown from the start."""
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
