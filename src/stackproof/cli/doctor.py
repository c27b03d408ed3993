"""`stackproof doctor [IMAGE]`: which known problems a stack, a machine or results have."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from stackproof import noun, symptoms
from stackproof.cli.explain import labelled
from stackproof.comparison import Results
from stackproof.errors import ExitCode, Problem, Reason, StackproofError, fail
from stackproof.evidence import FACTS, Evidence, FactValue, merged, redacted
from stackproof.host import files, probe
from stackproof.host.answers import ask, driver
from stackproof.host.images import load_image, read_member
from stackproof.host.knowledge import load_knowledge
from stackproof.host.results import load_results
from stackproof.knowledge import OTHERS, Knowledge, Level
from stackproof.quantities import size_text
from stackproof.rules import Answer, RuleFinding, diagnose
from stackproof.shapes import Mark

_LARGEST = 32 << 20
_SCHEMA = "stackproof/diagnosis/1"
_BILL = "meta/bom.cdx.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("image", nargs="?", metavar="IMAGE", help="image of the stack in question")
    parser.add_argument("--view", metavar="VIEW", help="view of the image (default: its own)")
    parser.add_argument(
        "--site", metavar="SITE", help="site to look at (default: this machine, by looking)"
    )
    parser.add_argument("--results", metavar="FOLDER", help="results of `bench` or `import`")
    parser.add_argument(
        "--arm", metavar="ARM", help="arm of the results (default: the first challenger)"
    )
    parser.add_argument(
        "--log", action="append", default=[], metavar="FILE",
        help="what a job printed; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--env", metavar="FILE",
        help="environment of the job, as `env` prints it in a rank (default: that of this shell; "
        "with --results or --site what they show)",
    )  # fmt: skip
    parser.add_argument(
        "--probe", action="store_true",
        help="also ask programs: fi_info, ompi_info, mpichversion (of the image, if there is one), "
        "scontrol, pkg-config; takes seconds",
    )  # fmt: skip
    parser.add_argument(
        "--have", action="append", default=[], metavar="COMPONENT=VERSION",
        help="a version, such as libfabric=2.3.1; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--fact", action="append", default=[], metavar="NAME=VALUE",
        help="a fact, such as transport=lnx or memory=device; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--bundle", metavar="FILE", help="write the evidence to one file, without secrets"
    )
    parser.add_argument("--replay", metavar="FILE", help="take the evidence from such a file")
    parser.add_argument("--all", action="store_true", help="show also what cannot be told, by rule")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Collect evidence, decide every known problem, and say what was found, the worst first.

    Findings do not change the exit code.
    """
    knowledge = load_knowledge(settings=False)
    results = _results(args.results)
    evidence = _replayed(args) if args.replay else _collected(args, results, knowledge)
    evidence = merged(evidence, _given(args, knowledge))
    findings = diagnose(knowledge, evidence)
    marks = symptoms.marks_of(results, knowledge) if results is not None else ()
    if args.bundle:
        files.write(args.bundle, noun.to_json(evidence))
        print(f"evidence: {args.bundle}", file=sys.stderr)
    if args.json:
        print(json.dumps(_data(evidence, findings, marks), indent=1, ensure_ascii=False))
    else:
        lines = [*_findings(findings), *_marks(marks), *_rest(findings, every=args.all)]
        print("\n".join(map(_harmless, lines)))
    return int(ExitCode.DONE)


# --- evidence -------------------------------------------------------------------------------


def _results(folder: str | None) -> Results | None:
    if folder is None:
        return None
    results = load_results(Path(folder))
    for problem in results.problems:
        print(str(problem).replace("error:", "warning:", 1), file=sys.stderr)
    return results


def _collected(args: argparse.Namespace, results: Results | None, knowledge: Knowledge) -> Evidence:
    """Return the evidence of everything that was named; what is more certain comes later."""
    site = probe.load_site(args.site) if args.site else probe.probe_site()
    vendor = args.image is None and results is None
    evidence = symptoms.of_site(site, vendor=vendor and args.site is not None)
    if args.site is None:
        evidence = merged(evidence, driver())
    if args.image is not None:
        image = load_image(args.image)
        if args.view is not None and args.view not in image.views:
            raise fail(
                Reason.UNKNOWN_VIEW,
                f"the image has no view `{args.view}`",
                hint=f"it has: {', '.join(image.views) or 'none'}",
            )
        bill = read_member(args.image, _BILL)
        evidence = merged(evidence, symptoms.of_bill(bill, f"bill of materials of {image.name}"))
        evidence = merged(evidence, symptoms.of_image(image, args.view))
    if args.probe:
        evidence = merged(evidence, ask(args.image))
    if results is not None:
        arm = _arm(results, args.arm)
        evidence = merged(evidence, symptoms.of_results(results, arm, knowledge))
    if args.env is not None:
        text = _text(args.env)
        found = symptoms.of_environment(symptoms.parse_environment(text), args.env)
        evidence = merged(evidence, found)
    elif results is None and args.site is None:
        found = symptoms.of_environment(os.environ, "this shell")
        evidence = merged(found, evidence)
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return merged(evidence, Evidence(taken=taken))


def _arm(results: Results, name: str | None) -> str:
    spec = results.spec
    arms = (*spec.challengers, spec.baseline)
    if name is None:
        return arms[0]
    if name not in arms:
        raise fail(
            Reason.USAGE, f"the results have no arm `{name}`", hint=f"arms are: {', '.join(arms)}"
        )
    return name


def _replayed(args: argparse.Namespace) -> Evidence:
    """Return the evidence of a bundle; raises `StackproofError` (USAGE, TOO_LARGE, …)."""
    for name in ("image", "site", "results", "env", "probe"):
        if getattr(args, name):
            raise fail(
                Reason.USAGE,
                f"--replay takes all evidence from its file; leave `{name}` out",
                hint="logs, versions and facts can be added with --log, --have and --fact",
            )
    evidence = noun.from_json(Evidence, _text(args.replay), file=args.replay)
    logs = {name: redacted(text) for name, text in evidence.logs.items()}
    return dataclasses.replace(evidence, logs=logs)


def _given(args: argparse.Namespace, knowledge: Knowledge) -> Evidence:
    """Return what the command line says; raises `StackproofError` with every wrong word."""
    problems: list[Problem] = []
    components = (*knowledge.newest, *sorted(OTHERS))
    versions = dict(_pairs(args.have, "--have", components, problems))
    texts = dict(_pairs(args.fact, "--fact", tuple(FACTS), problems))
    if problems:
        raise StackproofError(*problems)
    origins = {f"version {name}": "as you say" for name in versions}
    origins |= {f"fact {name}": "as you say" for name in texts}
    return Evidence(
        versions=versions,
        facts={name: _value(text) for name, text in texts.items()},
        logs={name: redacted(_text(name)) for name in args.log},
        origins=origins,
    )


def _pairs(
    words: Sequence[str], option: str, known: Sequence[str], problems: list[Problem]
) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            problems.append(
                Problem(reason=Reason.USAGE, message=f"`{option} {word}` is not NAME=VALUE")
            )
        elif name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            guess = f"did you mean `{close[0]}`? " if close else ""
            problems.append(
                Problem(
                    reason=Reason.USAGE,
                    message=f"no rule asks for `{name}`",
                    hint=f"{guess}they ask for: {', '.join(known)}",
                )
            )
        else:
            yield name, value


def _value(text: str) -> FactValue:
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return tuple(text.split(",")) if "," in text else text


def _text(path: str) -> str:
    data = files.read_bounded(path, _LARGEST, hint="give the part that shows the fault")
    return data.decode(errors="replace")


# --- what is said ---------------------------------------------------------------------------


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
    """Yield what curves show, faults first; a rule that holds at many sizes once."""
    if not marks:
        return
    yield ""
    yield "What the curves show:"
    order = list(Level)
    groups: dict[tuple[str, str, str, str], list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: order.index(mark.rule.level)):
        key = (mark.rule.id, mark.arm, mark.benchmark, mark.placement)
        groups.setdefault(key, []).append(mark)
    for (identifier, *place), same in groups.items():
        first = same[0]
        at = f" at {size_text(first.size)}" if first.size is not None else ""
        more = f", and at {len(same) - 1} more sizes" if len(same) > 1 else ""
        text = (
            f"{first.rule.title} ({', '.join(place)}{at}: {first.seen}{more}). {first.rule.meaning}"
        )
        yield from textwrap.wrap(
            text, 96, initial_indent=f"  {identifier} {first.rule.level}: ",
            subsequent_indent="      ",
        )  # fmt: skip


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
                f"{text} ({', '.join(asking)})", 96, initial_indent="  would tell: ",
                subsequent_indent="      ",
            )  # fmt: skip
        if len(wanted) > 8:
            yield f"  and {len(wanted) - 8} more: --all shows them"
    ids = ", ".join(sorted(one.rule.id for one in silent))
    yield from textwrap.wrap(f"Not there: {len(silent)} ({ids or 'none'})", 96)


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


def _harmless(line: str) -> str:
    """Return a line without what a terminal would obey: quotes are of others."""
    return "".join(character if character.isprintable() else "?" for character in line)
