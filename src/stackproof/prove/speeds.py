"""A comparison to what a proof says of speed: the judge's own numbers and words."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.compare.model import Cell, Comparison, Curve, Verdict, Why
from stackproof.prove.model import INJECTED, Speed
from stackproof.report.tables import reason_text, tail_text

_QUIET = "make the machine quiet, and prove it again"
_NO_NUMBER = "no number of launches that makes sense would decide it"


def speeds_of(comparison: Comparison) -> tuple[Speed, ...]:
    """Return the judgement of the injected MPI at every size.

    Where nothing is judged, as the null arm FAILs, each says why.
    """
    why = comparison.verdict_of(INJECTED).overruled
    return tuple(
        _speed(panel.curve, cell, why, comparison.spec.launches)
        for panel in comparison.panels
        if (judgement := panel.judgement(INJECTED)) is not None
        for cell in judgement.cells
    )


def notes_of(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader of these speeds is to be warned of."""
    yield from (note.text for note in comparison.notes if note.level == "warning")


def _speed(curve: Curve, cell: Cell, why: str, planned: int) -> Speed:
    is_open = cell.verdict is Verdict.INCONCLUSIVE
    if not is_open or cell.why is None:
        why = tail_text(cell) if cell.by_tail else ""
    elif cell.why is not Why.WITHHELD:
        why = reason_text(cell.why)
    return Speed(
        benchmark=curve.title,
        size=cell.size if curve.sized else None,
        verdict=cell.verdict.value,
        reads=cell.reads,
        margin=cell.margin,
        why=why,
        remedy=_remedy(cell, planned) if is_open else "",
        ratio=cell.ratio,
        low=cell.low,
        high=cell.high,
    )


def _remedy(cell: Cell, planned: int) -> str:
    """Return the remedy for an open cell; `planned` launches of each arm were asked for."""
    known = {
        Why.NOT_TRUSTED: "prove it again into another folder",
        Why.WITHHELD: "read the warnings, and prove it again",
        Why.DISTURBED: _QUIET,
        Why.NO_PAIRS: "look into `launches` of the folder",
    }
    if cell.why in known:
        return known[cell.why]
    needed = cell.launches_needed
    if needed is None:
        return f"{_NO_NUMBER}; {_QUIET}" if cell.why is Why.NOISE else _NO_NUMBER
    if needed <= planned:
        return f"{needed} are needed"
    return f"about {needed} launches of each arm would decide it: --launches {needed}"
