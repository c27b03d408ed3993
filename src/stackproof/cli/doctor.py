"""`stackproof doctor [IMAGE]`: which known problems a stack, a machine or results have."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from stackproof import harmless, noun
from stackproof.cli import doctor_bundle, doctor_collect
from stackproof.cli.explain import labelled, text_width
from stackproof.errors import ExitCode
from stackproof.evidence import Evidence
from stackproof.host.knowledge import load_knowledge
from stackproof.knowledge import Level
from stackproof.quantities import size_text
from stackproof.rules import Answer, RuleFinding, diagnose
from stackproof.shapes import Mark

_SCHEMA = "stackproof/diagnosis/1"


def run(args: argparse.Namespace) -> int:
    """Collect evidence, decide every known problem, and say what was found, the worst first.

    Findings do not change the exit code.
    """
    knowledge = load_knowledge()
    arrow = doctor_bundle.replay if args.replay else doctor_collect.collect
    collected = arrow(args, knowledge)
    findings = diagnose(knowledge, collected.evidence)
    data = {**_data(collected.evidence, findings, collected.marks), "paths": collected.paths}
    lines = [
        *_paths(collected.paths), *_findings(findings), *_marks(collected.marks),
        *_rest(findings, every=args.all),
    ]  # fmt: skip
    text = "\n".join(map(harmless.line, lines))
    if args.bundle:
        doctor_bundle.write(args.bundle, collected, data, text)
        print(f"bundle: {args.bundle}", file=sys.stderr)
    print(json.dumps(data, indent=1, ensure_ascii=False) if args.json else text)
    return int(ExitCode.DONE)


# --- what is said ---------------------------------------------------------------------------


def _paths(paths: Sequence[str]) -> Iterator[str]:
    """Yield where arms took different paths, which explains more than any rule."""
    if not paths:
        return
    yield "Arms took different paths:"
    for text in paths:
        yield from textwrap.wrap(
            text, text_width(), initial_indent="  ", subsequent_indent="      "
        )
    yield ""


def _findings(findings: Sequence[RuleFinding]) -> Iterator[str]:
    fired = [one for one in findings if one.outcome.answer is Answer.YES]
    yield f"Known problems that are there: {len(fired) or 'none of those that can be told'}"
    for one in fired:
        rule = one.rule
        yield ""
        yield f"{rule.id} {rule.name} ({rule.severity}): {rule.title}"
        for number, quote in enumerate(one.outcome.quotes):
            yield from labelled("seen" if not number else "", quote)
        if one.supported and one.support is not None:
            yield from labelled("shown by", "; ".join(one.support.quotes))
        if "inferred" in rule.evidence:
            yield from labelled("note", "a part of this is a conclusion that nobody has confirmed")
        yield from labelled("cause", rule.cause)
        yield from labelled("remedy", rule.remedy)
        for command in rule.commands:
            yield from labelled("", f"$ {command}")
        yield from labelled("source", rule.sources[0].url)


def _marks(marks: Sequence[Mark]) -> Iterator[str]:
    """Yield what curves show, faults first: each rule once, with the curves on which it holds."""
    if not marks:
        return
    yield ""
    yield "What the curves show:"
    order = list(Level)
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
            f"{text}). {rule.meaning}", text_width(),
            initial_indent=f"  {identifier} {rule.level}: ", subsequent_indent="      ",
        )  # fmt: skip


def _place(mark: Mark) -> str:
    at = f" at {size_text(mark.size)}" if mark.size is not None else ""
    return f"{mark.arm}, {mark.benchmark}, {mark.placement}{at}: {mark.seen}"


def _rest(findings: Sequence[RuleFinding], *, every: bool) -> Iterator[str]:
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
                f"{text} ({', '.join(asking)})", text_width(), initial_indent="  would tell: ",
                subsequent_indent="      ",
            )  # fmt: skip
        if len(wanted) > 8:
            yield f"  and {len(wanted) - 8} more: --all shows them"
    ids = ", ".join(sorted(one.rule.id for one in silent))
    yield from textwrap.wrap(f"Not there: {len(silent)} ({ids or 'none'})", text_width())


def _data(
    evidence: Evidence, findings: Sequence[RuleFinding], marks: Sequence[Mark]
) -> Mapping[str, object]:
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
            for one in findings
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
            for mark in marks
        ],
        "evidence": noun.to_data(evidence),
    }
