"""Findings of known problems, and what curves show, as text and as data."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stackproof.compare.curve_shapes import Mark
from stackproof.core import harmless, noun
from stackproof.core.numbers import size_text
from stackproof.doctor.rules import Answer, RuleFinding
from stackproof.knowledge.evidence import Evidence
from stackproof.knowledge.model import CurveLevel
from stackproof.report.knowledge_text import labelled

_SCHEMA = "stackproof/diagnosis/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Evidence, every known problem decided on it, and what curves and paths of arms show."""

    evidence: Evidence
    findings: tuple[RuleFinding, ...]
    marks: tuple[Mark, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[RuleFinding, ...]:
        """Return the known problems that are there, the worst first."""
        return tuple(one for one in self.findings if one.outcome.answer is Answer.YES)


def text_of(diagnosis: Diagnosis, width: int, *, every: bool = False) -> str:
    """Return a diagnosis as text of at most `width` columns; `every` also names what is unknown."""
    lines = [
        *_paths(diagnosis.paths, width), *_findings(diagnosis.problems, width),
        *_marks(diagnosis.marks, width), *_rest(diagnosis.findings, width, every=every),
    ]  # fmt: skip
    return "\n".join(map(harmless.line, lines))


def data_of(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis as data for JSON, with its evidence."""
    return {
        "schema": _SCHEMA,
        "findings": [
            {
                "rule": one.rule.id,
                "name": one.rule.name,
                "severity": one.rule.severity,
                "answer": one.outcome.answer,
                "supported": one.supported,
                "evidence": one.outcome.quotes,
                "would-tell": one.outcome.missing,
                "title": one.rule.title,
                "remedy": one.rule.remedy,
                "commands": one.rule.commands,
                "sources": [source.url for source in one.rule.sources],
            }
            for one in diagnosis.findings
        ],
        "curves": [
            {
                "rule": mark.rule.id,
                "level": mark.rule.level,
                "arm": mark.arm,
                "benchmark": mark.benchmark,
                "placement": mark.placement,
                "size": mark.size,
                "seen": mark.seen,
                "meaning": mark.rule.meaning,
            }
            for mark in diagnosis.marks
        ],
        "evidence": noun.to_data(diagnosis.evidence),
        "paths": diagnosis.paths,
    }


def _paths(paths: Sequence[str], width: int) -> Iterator[str]:
    """Yield where arms took different paths, which explains more than any rule."""
    if not paths:
        return
    yield "Arms took different paths:"
    for text in paths:
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ")
    yield ""


def _findings(problems: Sequence[RuleFinding], width: int) -> Iterator[str]:
    yield f"Known problems that are there: {len(problems) or 'none of those that can be told'}"
    for one in problems:
        rule = one.rule
        yield ""
        yield f"{rule.id} {rule.name} ({rule.severity}): {rule.title}"
        for number, quote in enumerate(one.outcome.quotes):
            yield from labelled("seen" if not number else "", quote, width)
        if one.supported and one.support is not None:
            yield from labelled("shown by", "; ".join(one.support.quotes), width)
        if "inferred" in rule.evidence:
            yield from labelled(
                "note", "a part of this is a conclusion that nobody has confirmed", width
            )
        yield from labelled("cause", rule.cause, width)
        yield from labelled("remedy", rule.remedy, width)
        for command in rule.commands:
            yield from labelled("", f"$ {command}", width)
        yield from labelled("source", rule.sources[0].url, width)


def _marks(marks: Sequence[Mark], width: int) -> Iterator[str]:
    """Yield what curves show, faults first: each rule once, with the curves on which it holds."""
    if not marks:
        return
    yield ""
    yield "What the curves show:"
    order = list(CurveLevel)
    groups: dict[str, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: order.index(mark.rule.level)):
        groups.setdefault(mark.rule.id, []).append(mark)
    for identifier, same in groups.items():
        rule = same[0].rule
        curves = list(dict.fromkeys((one.arm, one.benchmark, one.placement) for one in same))
        text = f"{rule.title} ({_place(same[0])}"
        if len(curves) > 1:
            arms = ", ".join(dict.fromkeys(arm for arm, *_ in curves))
            text += f"; on {len(curves)} curves of {arms}"
        elif len(same) > 1:
            text += f", and at {len(same) - 1} more sizes"
        yield from textwrap.wrap(
            f"{text}). {rule.meaning}", width,
            initial_indent=f"  {identifier} {rule.level}: ", subsequent_indent="      ",
        )  # fmt: skip


def _place(mark: Mark) -> str:
    at = f" at {size_text(mark.size)}" if mark.size is not None else ""
    return f"{mark.arm}, {mark.benchmark}, {mark.placement}{at}: {mark.seen}"


def _rest(findings: Sequence[RuleFinding], width: int, *, every: bool) -> Iterator[str]:
    """Yield what cannot be told, and what would tell; and what does not fire."""
    unknown = [one for one in findings if one.outcome.answer is Answer.UNKNOWN]
    silent = [one for one in findings if one.outcome.answer is Answer.NO]
    yield ""
    yield f"Cannot be told: {len(unknown)}"
    if every:
        for one in unknown:
            yield f"  {one.rule.id} {one.rule.name}: {one.rule.title}"
            yield from (f"      would tell: {text}" for text in one.outcome.missing)
    else:
        wanted: dict[str, list[str]] = {}
        for one in unknown:
            for text in one.outcome.missing:
                wanted.setdefault(text, []).append(one.rule.id)
        for text, asking in sorted(wanted.items(), key=lambda item: -len(item[1]))[:8]:
            yield from textwrap.wrap(
                f"{text} ({', '.join(asking)})", width, initial_indent="  would tell: ",
                subsequent_indent="      ",
            )  # fmt: skip
        if len(wanted) > 8:
            yield f"  and {len(wanted) - 8} more: --all shows them"
    ids = ", ".join(sorted(one.rule.id for one in silent))
    yield from textwrap.wrap(f"Not there: {len(silent)} ({ids or 'none'})", width)
