"""A diagnosis as text in three parts: what was seen, the likely causes, what would tell more."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from stackproof.core import harmless
from stackproof.core.value import Value, replace
from stackproof.doctor import commands as doctor_commands
from stackproof.doctor.conditions import Answer
from stackproof.doctor.diagnosis import Diagnosis
from stackproof.doctor.log.story import LogEvent, component_of
from stackproof.doctor.rules import RuleFinding
from stackproof.knowledge.model import Severity
from stackproof.report.knowledge_text import labelled

MOST_LINES = 12
"""Lines of an answer beside those on results: what the job printed, why, and what to do."""
MOST_CAUSES = 3
"""Causes that are named; a longer list helps nobody."""

_UNEXPLAINED = (
    "No known problem explains why it is slower. Look where it is, and have a short run say which "
    "path its messages take:"
)
_NEXT_COMMANDS = (
    "$ stackproof report RESULTS",
    "$ export FI_LOG_LEVEL=info MPIR_CVAR_DEBUG_SUMMARY=1 OMPI_MCA_bml_base_verbose=10",
    "$ stackproof run IMAGE -- mpiexec -n 2 ./program >slow.log 2>&1",
    "$ stackproof doctor IMAGE --log slow.log",
)
_INFERRED = "a part of this is a conclusion that nobody has confirmed"
_FACTS = ("mpi", "launcher", "provider", "ended")


class _Block(Value):
    """Lines that stay or go together; of too many the block of the largest weight goes first.

    A block that `continues` the one before leaves a mark there when it goes.
    """

    lines: tuple[str, ...]
    weight: int = 0
    continues: bool = False


def text_of(diagnosis: Diagnosis, width: int, *, every: bool = False) -> str:
    """Return a diagnosis as text of at most `width` columns; `every` also names what is unknown."""
    lines = [*_results(diagnosis, width, every=every)]
    blocks = [*_printed(diagnosis, width)]
    if not diagnosis.problems:
        blocks.append(_Block(lines=tuple(_nothing(diagnosis, width))))
    for finding in diagnosis.problems if every else diagnosis.problems[:1]:
        blocks += _cause(finding, diagnosis, width, every=every)
    if every:
        lines += [line for block in blocks for line in block.lines]
        lines += _rest(diagnosis.findings, width)
    else:
        lines += _fitted([*blocks, *_others(diagnosis, width), *_more(diagnosis, width)])
    return "\n".join(map(harmless.line, lines))


def _fitted(blocks: Sequence[_Block]) -> list[str]:
    """Return the lines of blocks without the least important ones of too many."""
    kept = list(blocks)
    while sum(len(block.lines) for block in kept) > MOST_LINES:
        place = max(range(len(kept)), key=lambda place: (kept[place].weight, place))
        last = kept.pop(place)
        if not last.weight:
            break
        if last.continues and last.lines:
            *head, tail = kept[place - 1].lines
            kept[place - 1] = _Block(lines=(*head, f"{tail.rpartition(' ')[0]} …"), weight=3)
    return [line for block in kept for line in block.lines][:MOST_LINES]


def _wrapped(text: str, width: int, first: str = "  ", most: int = 10**6) -> list[str]:
    """Return a text as lines; what is beyond the most is left out with a mark."""
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent="      ")
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1][: width - 2]} …"]
    return lines


# --- what was seen --------------------------------------------------------------------------


def _results(diagnosis: Diagnosis, width: int, *, every: bool) -> Iterator[str]:
    """Yield what results show: launches that fell back, arms on other paths, and slower ones."""
    for title, texts in (
        ("Launches did not take the path that was asked for", diagnosis.fallbacks),
        ("Arms took different paths", diagnosis.paths),
        ("Below the margin by `stackproof compare`", diagnosis.slower),
    ):
        if texts:
            yield f"{title}:"
            shown = texts if every else texts[:3]
            for text in shown:
                yield from _wrapped(text, width, most=10**6 if every else 2)
            if len(texts) > len(shown):
                yield f"  and {len(texts) - len(shown)} more: --all shows them"


def _printed(diagnosis: Diagnosis, width: int) -> Iterator[_Block]:
    """Yield the line that the first cause rests on, the first that failed, and how it ended."""
    story, evidence = diagnosis.story, diagnosis.evidence
    if not evidence.logs or ("discarded" in evidence.facts and not story.shown):
        return
    words = [
        f"{name}: {evidence.facts[name]}" for name in _FACTS
        if name in evidence.facts and evidence.origin("fact", name) in evidence.logs
    ]  # fmt: skip
    words += story.endings
    facts = f" ({'; '.join(words)})" * bool(words)
    head = _wrapped(f"What the job printed{facts}:", width, "", most=2)
    yield _Block(lines=tuple(head), weight=0 if story.shown else 3)
    key = _key_line(diagnosis)
    if key is not None:
        others = [event for event in story.shown if not _is_line(event, key)]
        others.sort(key=lambda event: not event.stack)
        events = [(0, 3, key), *((5, 2, event) for event in others[:1])]
    else:
        events = [(2 * place, 4, event) for place, event in enumerate(story.shown[:5])]
    for weight, most, event in events:
        by = _said_by(event, whole=key is None or event is key or event.file != key.file)
        text = harmless.shorten(event.text, most * (width - 6) - len(by) - 2)
        lines = _wrapped(f"{by}: {text}", width, most=most)
        yield _Block(lines=tuple(lines[:1]), weight=weight)
        yield _Block(lines=tuple(lines[1:]), weight=weight and weight + 1, continues=True)
    if not events:
        yield _Block(lines=("  no line that says that something failed",), weight=4)
    first = story.first_failed
    if first is not None and all(not _is_line(first, event) for _, _, event in events):
        line = _wrapped(f"first to fail: {_who(first)} (line {first.line})", width, most=1)
        yield _Block(lines=tuple(line), weight=7)


def _is_line(event: LogEvent, other: LogEvent) -> bool:
    return (event.file, event.line) == (other.file, other.line)


def _key_line(diagnosis: Diagnosis) -> LogEvent | None:
    """Return the line of a log that the first cause rests on, whole."""
    if not diagnosis.explained:
        return None
    for quote in diagnosis.problems[0].outcome.quotes:
        match = _PLACE.match(quote)
        if match and match["file"] in diagnosis.evidence.logs:
            line, text = int(match["line"]), match["text"]
            same = (one for one in diagnosis.story.events
                    if (one.file, one.line) == (match["file"], line))  # fmt: skip
            event = next(same, LogEvent(file=match["file"], line=line, text=text))
            return replace(event, text=text, component=event.component or component_of(text))
    return None


_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d{1,9}): (?P<text>.*)", re.DOTALL)


def _said_by(event: LogEvent, *, whole: bool) -> str:
    by = ", ".join(word for word in (event.component, _who(event)) if word)
    place = f"{event.file}:{event.line}" if whole else f"line {event.line}"
    return place + f" ({by})" * bool(by)


def _who(event: LogEvent) -> str:
    rank = f"rank {event.rank}" if event.rank is not None else ""
    node = (event.node and f"on {event.node}" * bool(rank)) or (event.node and f"node {event.node}")
    return " ".join(word for word in (rank, node) if word)


# --- causes ---------------------------------------------------------------------------------


def _cause(
    finding: RuleFinding, diagnosis: Diagnosis, width: int, *, every: bool
) -> Iterator[_Block]:
    """Yield a cause as blocks; with `every`, by its number and with all that it rests on."""
    rule, outcome = finding.rule, finding.outcome
    lead = "Harmless" if rule.severity is Severity.HARMLESS else "Most likely cause"
    lead = lead if finding is diagnosis.problems[0] else "Then"
    name = f"{rule.id} {rule.name} ({rule.severity}): " * every
    words = f" [{outcome.certainty}]" if outcome.certainty else ""
    yield _Block(lines=tuple(_wrapped(f"{lead}: {name}{rule.title}{words}", width, "")))
    logs = diagnosis.evidence.logs
    quotes = [
        quote for quote in outcome.quotes
        if every or not ((match := _PLACE.match(quote)) and match["file"] in logs)
    ]  # fmt: skip
    shown = [(quote, "" if place else "seen") for place, quote in enumerate(quotes)]
    if every and finding.supported and finding.support is not None:
        shown.append(("; ".join(finding.support.quotes), "shown by"))
    for place, (quote, label) in enumerate(shown if every else shown[:3]):
        text = quote if every else harmless.shorten(quote, 3 * width - 40)
        yield _Block(lines=tuple(labelled(label, text, width)), weight=2 + 2 * place)
    if "inferred" in rule.evidence and diagnosis.explained:
        yield _Block(lines=tuple(labelled("note", _INFERRED, width)), weight=8)
    cause = labelled("cause", rule.cause, width) if rule.cause else []
    yield _Block(lines=tuple(cause[:2]), weight=3)
    yield _Block(lines=tuple(cause[2:]), weight=7, continues=True)
    evidence, named = diagnosis.evidence, diagnosis.named
    remedy = doctor_commands.fill_names(rule.remedy, evidence, named)
    yield _Block(lines=tuple(labelled("remedy", remedy, width)))
    commands = rule.commands if every else doctor_commands.fitting_commands(rule, evidence)
    for place, command in enumerate(commands):
        weight = (1, 4, 8)[min(place, 2)]
        text = f"$ {doctor_commands.fill_names(command, evidence, named)}"
        yield _Block(lines=tuple(labelled("", text, width)), weight=weight)
    for source in rule.sources[:1]:
        yield _Block(lines=tuple(labelled("source", source.url, width)), weight=3)


def _others(diagnosis: Diagnosis, width: int) -> Iterator[_Block]:
    """Yield the titles and remedies of two other causes."""
    for other in diagnosis.problems[1:MOST_CAUSES]:
        lead = "Harmless" if other.rule.severity is Severity.HARMLESS else "Or"
        title = _wrapped(f"{lead}: {other.rule.title}", width, "", most=1)
        yield _Block(lines=tuple(title), weight=6)
        remedy = _wrapped(f"remedy    {other.rule.remedy}", width, most=1)
        yield _Block(lines=tuple(remedy), weight=9)


def _nothing(diagnosis: Diagnosis, width: int) -> list[str]:
    """Return that no cause is known, and where to look."""
    story = diagnosis.story
    if diagnosis.slower and not story.fatal:
        folder = shlex.quote(diagnosis.named.get("RESULTS") or "RESULTS")
        lines = _wrapped(_UNEXPLAINED, width, "")
        for text in _NEXT_COMMANDS:
            lines += _wrapped(text.replace("RESULTS", folder), width)
        return lines
    if not story.fatal:
        reason = "of those that can be told from this" if story.first is None else (
            "and lines that look so did not end the job, as far as they tell"
        )  # fmt: skip
        return [f"No known problem is there, {reason}."]
    who = story.first_failed
    look = f" Look first at {_who(who)}." if who is not None else ""
    return _wrapped(f"No rule knows these lines, so no cause is claimed.{look}", width, "")


# --- what would tell more -------------------------------------------------------------------


def _more(diagnosis: Diagnosis, width: int) -> Iterator[_Block]:
    """Yield the pieces of evidence that could change the first cause."""
    first = diagnosis.problems[0].rule.id if diagnosis.explained else ""
    open_texts = Counter(
        text
        for finding in diagnosis.findings
        if finding.outcome.answer is Answer.UNKNOWN
        and (not first or first in finding.rule.outranks)
        for text in finding.outcome.missing
    )
    best = [text for text, _ in open_texts.most_common(3)]
    if best:
        text = f"To check more, give (--all: everything): {'; '.join(best)}"
        yield _Block(lines=tuple(_wrapped(text, width, "", most=3)), weight=9)


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
