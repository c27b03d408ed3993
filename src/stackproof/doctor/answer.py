"""A diagnosis as text in three parts: what was seen, the likely causes, what would tell more."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stackproof.compare.curve_shapes import Mark
from stackproof.core import harmless
from stackproof.core.numbers import size_text
from stackproof.doctor.conditions import Answer
from stackproof.doctor.diagnosis import Diagnosis
from stackproof.doctor.log.story import LogEvent
from stackproof.doctor.rules import RuleFinding
from stackproof.knowledge.model import CurveLevel, Severity
from stackproof.report.knowledge_text import labelled

MOST_LINES = 24
"""Lines of an answer, so that it fits a screen."""
MOST_CAUSES = 3
"""Causes that are told; a longer list helps nobody."""

_INFERRED = "a part of this is a conclusion that nobody has confirmed"
_QUOTE, _SLACK = 330, 24
_MOST_MARKS = 4
_SAID_OF = ("mpi", "launcher", "provider", "ended")


def text_of(diagnosis: Diagnosis, width: int, *, every: bool = False) -> str:
    """Return a diagnosis as text of at most `width` columns; `every` also names what is unknown."""
    seen = [*_results(diagnosis, width, every=every), *_seen(diagnosis, width)]
    more = [*_more(diagnosis, width)]
    if every:
        lines = [*seen, *_causes(diagnosis, width, 10**6), *_rest(diagnosis.findings, width)]
    else:
        room = MOST_LINES - len(seen) - len(more)
        lines = [*seen, *_causes(diagnosis, width, room), *more]
    return "\n".join(map(harmless.line, lines))


def _wrapped(text: str, width: int, first: str = "  ", most: int = 10**6) -> list[str]:
    """Return a text as lines; what is beyond the most is left out with a mark."""
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent="      ")
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1][: width - 2]} …"]
    return lines


# --- what was seen --------------------------------------------------------------------------


def _results(diagnosis: Diagnosis, width: int, *, every: bool) -> Iterator[str]:
    """Yield what results show: where arms took other paths, how fast they are, and shapes."""
    for title, texts in (
        ("Launches did not take the path that was asked for", diagnosis.fallbacks),
        ("Arms took different paths", diagnosis.paths),
        ("How fast the arms are (1.00 is as fast as the baseline)", diagnosis.ratios),
    ):
        if texts:
            yield f"{title}:"
            shown = texts if every else texts[:3]
            for text in shown:
                yield from _wrapped(text, width, most=10**6 if every else 2)
            if len(texts) > len(shown):
                yield f"  and {len(texts) - len(shown)} more: --all shows them"
    yield from _marks(diagnosis.marks, width, every=every)


def _marks(marks: Sequence[Mark], width: int, *, every: bool) -> Iterator[str]:
    """Yield what curves show, faults first: each rule once, with the curves on which it holds."""
    order = list(CurveLevel)
    groups: dict[str, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: order.index(mark.rule.level)):
        groups.setdefault(mark.rule.id, []).append(mark)
    shown = list(groups.items()) if every else list(groups.items())[:_MOST_MARKS]
    if shown:
        yield "What the curves show:"
    for identifier, same in shown:
        rule = same[0].rule
        curves = list(dict.fromkeys((one.arm, one.benchmark, one.placement) for one in same))
        text = f"{rule.title} ({_place(same[0])}"
        if len(curves) > 1:
            arms = ", ".join(dict.fromkeys(arm for arm, *_ in curves))
            text += f"; on {len(curves)} curves of {arms}"
        elif len(same) > 1:
            text += f", and at {len(same) - 1} more sizes"
        number = f"{identifier} " * every
        meaning = f"{text}). {rule.meaning}"
        yield from _wrapped(meaning, width, f"  {number}{rule.level}: ", most=10**6 if every else 2)
    if len(groups) > len(shown):
        yield f"  and {len(groups) - len(shown)} more: --all shows them"


def _place(mark: Mark) -> str:
    at = f" at {size_text(mark.size)}" if mark.size is not None else ""
    return f"{mark.arm}, {mark.benchmark}, {mark.placement}{at}: {mark.seen}"


def _seen(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield the first lines of logs that say that something failed, and how it ended."""
    story = diagnosis.story
    told_by_bench = "discarded" in diagnosis.evidence.facts
    if not diagnosis.evidence.logs or (told_by_bench and not story.shown):
        return
    yield "What the job printed:"
    explained = diagnosis.explained
    chosen = story.shown
    for event in chosen[: 2 if explained else 5]:
        by = _said_by(event)
        most = (2 if explained else 4) * (width - 6) - len(by) - _SLACK
        yield from _wrapped(f"{by}: {harmless.shorten(event.text, most)}", width)
    if not chosen:
        yield "  no line that says that something failed"
    first = story.first_failed
    if first is not None and first not in chosen[:2]:
        yield from _wrapped(f"first to fail: {_who(first)} (line {first.line})", width, most=1)
    facts = diagnosis.evidence.facts
    logs = set(diagnosis.evidence.logs)
    said = [
        f"{name}: {facts[name]}" for name in _SAID_OF
        if name in facts and diagnosis.evidence.origin("fact", name) in logs
    ]  # fmt: skip
    said += story.endings
    if said:
        yield from _wrapped("; ".join(said), width, most=2)


def _said_by(event: LogEvent) -> str:
    by = ", ".join(word for word in (event.component, _who(event)) if word)
    return f"{event.file}:{event.line}" + f" ({by})" * bool(by)


def _who(event: LogEvent) -> str:
    rank = f"rank {event.rank}" if event.rank is not None else ""
    node = (event.node and f"on {event.node}" * bool(rank)) or (event.node and f"node {event.node}")
    return " ".join(word for word in (rank, node) if word)


# --- causes ---------------------------------------------------------------------------------


def _causes(diagnosis: Diagnosis, width: int, room: int) -> Iterator[str]:
    """Yield the likely causes, the first one whole, within so many lines."""
    problems = diagnosis.problems
    if not problems:
        yield from _nothing(diagnosis, width)
        return
    rest = [line for one in problems[1:MOST_CAUSES] for line in _short(one, width)]
    if room > MOST_LINES:
        for number, one in enumerate(problems, 1):
            yield from _whole(one, width, number, every=True)
        return
    first = list(_whole(problems[0], width, 1, every=False))
    if len(first) > room:
        first = list(_whole(problems[0], width, 1, every=False, brief=True))[: max(room, 6)]
    yield from first
    yield from rest[: max(0, room - len(first))]


def _nothing(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield that no cause is known, and where to look."""
    first = diagnosis.story.first
    if first is None:
        yield "No known problem is there, of those that can be told from this."
        return
    if not diagnosis.story.fatal:
        yield "No known problem: lines that look so did not end the job, as far as they tell."
        return
    by = f" {first.component} printed it." if first.component else ""
    who = diagnosis.story.first_failed
    look = f" Look first at {_who(who)}." if who is not None else ""
    yield from _wrapped(f"No rule knows these lines, so no cause is claimed.{by}{look}", width, "")


def _whole(
    one: RuleFinding, width: int, number: int, *, every: bool, brief: bool = False
) -> Iterator[str]:
    rule = one.rule
    title = f"{rule.id} {rule.name} ({rule.severity}): {rule.title}" if every else rule.title
    lead = "Harmless" if rule.severity is Severity.HARMLESS else "Most likely cause"
    lead = lead if number == 1 else "Then"
    yield from _wrapped(f"{lead}: {title}", width, "")
    quotes = one.outcome.quotes if every else one.outcome.quotes[: 1 if brief else 3]
    for index, quote in enumerate(quotes):
        label = f"  {'seen' if not index else '':<10}"
        text = quote if every else harmless.shorten(quote, _QUOTE)
        yield from textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * 12)
    if one.supported and one.support is not None and every:
        yield from labelled("shown by", "; ".join(one.support.quotes), width)
    if "inferred" in rule.evidence:
        yield from labelled("note", _INFERRED, width)
    if not brief and rule.cause:
        yield from labelled("cause", rule.cause, width)
    yield from labelled("remedy", rule.remedy, width)
    for command in rule.commands:
        yield from labelled("", f"$ {command}", width)
    if not brief and rule.sources:
        yield from labelled("source", rule.sources[0].url, width)


def _short(one: RuleFinding, width: int) -> Iterator[str]:
    """Yield another cause in two lines."""
    lead = "Harmless" if one.rule.severity is Severity.HARMLESS else "Or"
    yield from _wrapped(f"{lead}: {one.rule.title}", width, "", most=1)
    yield from _wrapped(f"remedy    {one.rule.remedy}", width, most=1)


# --- what would tell more -------------------------------------------------------------------


def _more(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield the pieces of evidence that would decide most of what is open."""
    wanted: dict[str, int] = {}
    for one in diagnosis.findings:
        if one.outcome.answer is Answer.UNKNOWN:
            for text in one.outcome.missing:
                wanted[text] = wanted.get(text, 0) + 1
    best = sorted(wanted, key=lambda text: -wanted[text])[:3]
    if best:
        text = f"To check more, give (--all: everything): {'; '.join(best)}"
        yield from _wrapped(text, width, "", most=3)


def _rest(findings: Sequence[RuleFinding], width: int) -> Iterator[str]:
    """Yield what cannot be told, and what would tell; and what does not fire."""
    unknown = [one for one in findings if one.outcome.answer is Answer.UNKNOWN]
    silent = [one for one in findings if one.outcome.answer is Answer.NO]
    yield ""
    yield f"Not checked: {len(unknown)}"
    for one in unknown:
        yield f"  {one.rule.id} {one.rule.name}: {one.rule.title}"
        yield from (f"      to check it, give: {text}" for text in one.outcome.missing)
    ids = ", ".join(one.rule.id for one in sorted(silent, key=lambda one: one.rule.number))
    yield from textwrap.wrap(f"Not there: {len(silent)} ({ids or 'none'})", width)
