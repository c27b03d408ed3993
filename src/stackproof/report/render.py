"""A comparison to what people and programs read: HTML, JSON, CSV, Markdown, terminal text."""

from __future__ import annotations

from collections.abc import Sequence

from stackproof.compare.model import Comparison
from stackproof.core import noun
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.knowledge.reference_curves import ReferenceCurve
from stackproof.report.markdown import render_markdown
from stackproof.report.page import render_page
from stackproof.report.ranking import render_paths_csv
from stackproof.report.tables import render_csv
from stackproof.report.terminal import terminal_verdicts

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
    return render_page(comparison, curves, overlay)


def render_json(comparison: Comparison) -> str:
    """Return the comparison as JSON (schema `stackproof/comparison/1`)."""
    return noun.to_json(comparison)
