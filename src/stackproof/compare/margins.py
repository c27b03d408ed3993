"""Margins: what they can be stated for, as words and as numbers, and what each statistic has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stackproof.compare.model import DEFAULT_MARGINS
from stackproof.core.errors import Problem, Reason, fail
from stackproof.core.numbers import percent_text

TAIL = "tail"
TAIL_MARGIN = 0.25
"""How much worse the mean and the 95th percentile of a launch's samples may be."""

P99 = "p99"
_OF_TAIL = ("mean", "p95")

NAMES: tuple[str, ...] = (*DEFAULT_MARGINS, TAIL, P99)
"""What a margin can be stated for: kinds of metrics, and tails."""


def parse_margins(texts: Sequence[str]) -> dict[str, float]:
    """Return margins from `KIND=0.05` or `KIND=5%`; raises `StackproofError` (USAGE)."""
    found: dict[str, float] = {}
    for text in texts:
        kind, _, value = text.partition("=")
        try:
            margin = float(value.rstrip("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            margin = 0.0
        if kind not in NAMES or not 0 < margin < 1:
            raise fail(
                Reason.USAGE,
                f"`{text}` is not a margin",
                hint="write KIND=FRACTION with a fraction between 0 and 1, such as "
                f"`latency=0.10`; kinds are: {', '.join(NAMES)}",
            )
        found[kind] = margin
    return found


def margin_problems(margins: Mapping[str, float]) -> Iterator[Problem]:
    """Yield the margins that are of nothing, or no fraction."""
    for kind, margin in margins.items():
        if kind not in NAMES:
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"there is no kind of metric `{kind}` to set a margin for",
                hint=f"kinds are: {', '.join(NAMES)}",
            )
        elif not 0 < margin < 1:
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"the margin of `{kind}` is {margin}; it must lie between 0 and 1",
                hint="a margin is a fraction: 0.10 means that a challenger may be 10 % worse",
            )


def margins_of_tails(margins: Mapping[str, float], kind: str) -> dict[str, float]:
    """Return the margins of the statistics of the tail that are judged, p99 where it is named.

    Where nobody states one, the tail may be as much worse as the median of that kind of metric.
    """
    margin = margins.get(TAIL, max(TAIL_MARGIN, margins[kind]))
    found = dict.fromkeys(_OF_TAIL, margin)
    return {**found, P99: margins[P99]} if P99 in margins else found


def named_tails(margins: Mapping[str, float]) -> frozenset[str]:
    """Return the statistics of the tail that somebody stated a margin for: they must be decided."""
    return frozenset((*(_OF_TAIL if TAIL in margins else ()), *({P99} & margins.keys())))


def planned_words(margins: Mapping[str, float], planned: Mapping[str, float]) -> list[str]:
    """Return the sentences on margins that are not the usual or not the planned ones."""
    usually, found = {**DEFAULT_MARGINS, TAIL: TAIL_MARGIN}, []
    for kind, margin in margins.items():
        wanted, usual = planned.get(kind, usually.get(kind)), usually.get(kind)
        if wanted is not None and margin != wanted:
            found.append(
                f"the margin of {kind} is {percent_text(margin)}; "
                f"{percent_text(wanted)} was planned, so this verdict is not the planned one"
            )
        elif usual is not None and margin > usual:
            found.append(
                f"the margin of {kind} is {percent_text(margin)}, as planned; "
                f"{percent_text(usual)} is usual"
            )
    return found
