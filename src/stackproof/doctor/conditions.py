"""Conditions on evidence, each with three answers: it holds, it does not, or it cannot be told.

Three-valued logic: what is not known decides nothing, but something else may. A release newer than
those that were looked at is not claimed to have, or not to have, what a range without an end says.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from stackproof.core import harmless
from stackproof.core.value import Value, replace
from stackproof.core.versions import Part, Range, Versions, versions
from stackproof.doctor.log.grammar import COMPONENTS, LISTED, SPEAKERS
from stackproof.doctor.log.lines import plain
from stackproof.doctor.log.patterns import is_error_number, search
from stackproof.doctor.log.story import component_of, story_of
from stackproof.knowledge.evidence import FACTS, Evidence

LONGEST_QUOTE = 200
"""Characters of a line of a log that are quoted."""

MOST_NAMES = 3
"""Variables that are quoted where a pattern of names fits more."""

_FAMILIES = frozenset(FACTS["mpi"].values)
"""Components that are an MPI: where another one is known, they are not there."""

_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.post\d+)?")


class Answer(StrEnum):
    """Whether a condition holds, or a rule fires."""

    YES = "fires"
    NO = "does not fire"
    UNKNOWN = "cannot tell"


class Certainty(StrEnum):
    """The kind of words that a cause rests on, the most particular first.

    A message is one of its speaker, who is named beside the line.
    """

    MESSAGE = "this message"
    NUMBER = "only an error number"
    SPEAKER = "speaker and stage only"


class Outcome(Value):
    """An answer with what it rests on; `missing` is what would tell, when it cannot be told.

    `place` is the first line of a log that it rests on, None when it rests on none.
    """

    answer: Answer
    quotes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    place: int | None = None
    certainty: Certainty | None = None


class _Asked(Value, kw_only=False):
    """A condition, the evidence it is held against, and the newest releases that were looked at."""

    condition: Mapping[str, Any]
    evidence: Evidence
    newest: Mapping[str, str]

    def inner(self, key: str) -> list[Outcome]:
        """Return the outcomes of the conditions below a key."""
        return [evaluate(one, self.evidence, self.newest) for one in self.condition[key]]


def evaluate(
    condition: Mapping[str, Any], evidence: Evidence, newest: Mapping[str, str]
) -> Outcome:
    """Return the outcome of a condition, see `schemas/rules.json`; all its parts must hold."""
    asked = _Asked(condition, evidence, newest)
    return _all([outcome for key in condition for outcome in _PARTS[key](condition[key], asked)])


def _all(parts: list[Outcome]) -> Outcome:
    against = [part for part in parts if part.answer is Answer.NO]
    if against:
        return Outcome(answer=Answer.NO, quotes=against[0].quotes)
    is_open = any(part.answer is Answer.UNKNOWN for part in parts)
    return _together(Answer.UNKNOWN if is_open else Answer.YES, parts)


def _any(parts: list[Outcome]) -> Outcome:
    for answer in (Answer.YES, Answer.UNKNOWN):
        chosen = [part for part in parts if part.answer is answer]
        if chosen:
            return _together(answer, chosen)
    return Outcome(answer=Answer.NO, quotes=_joined(part.quotes for part in parts))


def _not(part: Outcome) -> Outcome:
    turned = {Answer.YES: Answer.NO, Answer.NO: Answer.YES, Answer.UNKNOWN: Answer.UNKNOWN}
    return Outcome(answer=turned[part.answer], quotes=part.quotes, missing=part.missing)


def _unless(part: Outcome) -> Outcome:
    return Outcome(answer=Answer.NO if part.answer is Answer.YES else Answer.YES)


def _together(answer: Answer, parts: list[Outcome]) -> Outcome:
    """Return the outcome of parts together: their first line, and their most certain words."""
    known = [part.certainty for part in parts if part.certainty is not None]
    return Outcome(
        answer=answer,
        quotes=_joined(part.quotes for part in parts),
        missing=_joined(part.missing for part in parts),
        place=min((part.place for part in parts if part.place is not None), default=None),
        certainty=min(known, key=list(Certainty).index, default=None),
    )


def _joined(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for group in groups for text in group))


def _decided(holds: bool, quote: str) -> Outcome:  # noqa: FBT001 - what is decided
    return Outcome(answer=Answer.YES if holds else Answer.NO, quotes=(quote,))


def _unknown(missing: str) -> Outcome:
    return Outcome(answer=Answer.UNKNOWN, missing=(missing,))


def _from(evidence: Evidence, kind: str, name: str) -> str:
    origin = evidence.origin(kind, name)
    return f" ({origin})" if origin else ""


# --- parts of a condition -------------------------------------------------------------------


def _version(component: str, text: str, evidence: Evidence, newest: str | None) -> Outcome:
    given = evidence.versions.get(component)
    mpi = evidence.facts.get("mpi")
    if given is None and component in _FAMILIES and isinstance(mpi, str) and mpi != component:
        return _decided(False, f"mpi: {mpi}{_from(evidence, 'fact', 'mpi')}")
    if given is None:
        return _unknown(f"the version of {component}")
    quote = f"{component} {given}{_from(evidence, 'version', component)}"
    have = _exact(given)
    if have is None:
        return _unknown(f"a release of {component}: `{given}` cannot be compared with others")
    asked = versions(text)
    # One exact version: no longer one is in its range.
    exact = Versions((Range(have, (*have, 0)),))
    inside = exact.within(asked)
    if newest is not None and have > (_exact(newest) or have) and inside and _open(asked):
        return _unknown(f"whether {quote} still has it: {newest} is the newest that was looked at")
    return _decided(inside, quote)


def _open(asked: Versions) -> bool:
    return any(one.high is None for one in asked.ranges)


def _exact(text: str) -> Part | None:
    match = _VERSION.fullmatch(text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _named(pattern: str, evidence: Evidence) -> list[Outcome]:
    if evidence.variables is None:
        return [_unknown(f"the environment of the job ({pattern})")]
    found = [name for name in evidence.variables if re.search(pattern, name)]
    if found:
        return [_variable(evidence, name, _is_set) for name in found[:MOST_NAMES]]
    if "variables" in evidence.partial:
        return [_unknown(f"the whole environment of the job ({pattern})")]
    return [_decided(False, f"no variable is named `{pattern}`")]


def _is_set(value: str | None) -> bool:
    return value is not None


def _is_unset(value: str | None) -> bool:
    return value is None


def _same(wanted: str, value: str | None) -> bool:
    """Return true where a value is the one that is meant; 1 and 0 may be said in words."""
    if value is None:
        return False
    return value == wanted or _SWITCHES.get(value.strip().lower()) == wanted


_SWITCHES = {"yes": "1", "true": "1", "on": "1", "no": "0", "false": "0", "off": "0"}


def _found(pattern: str, value: str | None) -> bool:
    return value is not None and re.search(pattern, value) is not None


def _variable(evidence: Evidence, name: str, holds: Callable[[str | None], bool]) -> Outcome:
    if evidence.variables is None:
        return _unknown(f"the environment of the job ({name})")
    value = evidence.variables.get(name)
    if value is None and "variables" in evidence.partial:
        return _unknown(f"the whole environment of the job ({name})")
    quote = f"{name} is not set" if value is None else f"{name}={value}"
    return _decided(holds(value), f"{quote}{_from(evidence, 'variable', name)}")


def _fact(evidence: Evidence, name: str, wanted: tuple[str | bool, ...]) -> Outcome:
    if name not in evidence.facts:
        return _missing_fact(name)
    value = evidence.facts[name]
    have = value if isinstance(value, tuple | list) else (value,)
    words = ", ".join(_word(one) for one in have) or "none"
    quote = f"{name}: {words}{_from(evidence, 'fact', name)}"
    holds = any(one in wanted for one in have)
    if not holds and f"fact {name}" in evidence.partial:
        return _missing_fact(name)
    return replace(_decided(holds, quote), place=_line_of(evidence, name) if holds else None)


def _line_of(evidence: Evidence, name: str) -> int | None:
    """Return the line of a log that tells a fact, None where no line of one does."""
    match = _PLACE.match(evidence.origin("fact", name))
    return int(match["line"]) if match and match["log"] in evidence.logs else None


_PLACE = re.compile(r"(?P<log>[^:]+):(?P<line>[0-9]{1,12}):")


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _missing_fact(name: str) -> Outcome:
    kind = FACTS[name]
    return _unknown(f"{kind.description}: {kind.told_by}")


def _number(evidence: Evidence, name: str, holds: Callable[[float], bool]) -> Outcome:
    value = evidence.facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _missing_fact(name)
    decided = _decided(holds(value), f"{name}: {value:.4g}{_from(evidence, 'fact', name)}")
    return replace(decided, place=_line_of(evidence, name) if holds(value) else None)


def _log(pattern: str, not_by: Iterable[str], evidence: Evidence) -> Outcome:
    if not evidence.logs:
        return _unknown(_NO_LOG)
    others = frozenset().union(*(SPEAKERS[name] for name in not_by))
    for name, text in evidence.logs.items():
        log = plain(text, tuple(evidence.line_numbers.get(name, ())))
        for match in search(pattern, log.text):
            begin = log.text.rfind("\n", 0, match.start() + (match[0][:1] == "\n")) + 1
            whole = log.text[begin : max(log.text.find("\n", match.end()), match.end())]
            if others and component_of(whole or log.text[begin:]) in others:
                continue
            if LISTED.search(whole):
                continue
            number = log.number_at(begin)
            quote = f"{name}:{number}: {harmless.line(_quoted(log.text, begin, match.end()))}"
            words = match.groupdict().get("error") or match[0]
            certainty = Certainty.NUMBER if is_error_number(words) else Certainty.MESSAGE
            return Outcome(answer=Answer.YES, quotes=(quote,), place=number, certainty=certainty)
    if "logs" in evidence.partial:
        return _unknown(_NO_WHOLE_LOG)
    return _decided(False, f"`{pattern}` does not stand in {', '.join(evidence.logs)}")


_NO_LOG = "what the job printed: `--log FILE`"
_NO_WHOLE_LOG = "everything that the job printed: `--log FILE`"


def _speaker(names: Iterable[str], stages: Iterable[str], evidence: Evidence) -> Outcome:
    """Return the answer to `speaker` and `stage`: who said first that something failed."""
    if not evidence.logs or "logs" in evidence.partial:
        return _unknown(_NO_WHOLE_LOG if evidence.logs else _NO_LOG)
    story = story_of(evidence)
    opening = story.opening
    if opening is None:
        return _decided(False, "no line says that something failed")
    by = opening.component or "program"
    quote = f"{opening.file}:{opening.line}: {harmless.line(opening.text)}"
    decided = _decided(
        by in names
        and story.stage in (stages or (story.stage,))
        and (story.dead or (story.unanswered and opening.fatal and by in _OF_JOBS)),
        harmless.shorten(quote, LONGEST_QUOTE),
    )
    if decided.answer is Answer.NO:
        return decided
    return replace(decided, place=opening.line, certainty=Certainty.SPEAKER)


_OF_JOBS = frozenset(name for name, _ in COMPONENTS) - {"Python", "the C library", "the kernel"}
"""Speakers whose complaint is the end of a job where nothing was printed after it."""


def _quoted(text: str, begin: int, end: int) -> str:
    """Return the line of a match, to its end, and the fields that a launcher's box gives below."""
    stop = text.find("\n", end)
    whole = " ".join(text[begin : stop if stop >= 0 else len(text)].split())
    fields = []
    below = text[stop:].split("\n", _FIELDS_BELOW)[1:-1] if stop >= 0 else []
    for line in below:
        if _FIELD.match(line):
            fields.append(" ".join(line.split()))
        elif (fields and not line.strip()) or line[:3] == "---":
            break
    said = harmless.shorten(whole, LONGEST_QUOTE)
    return harmless.shorten("; ".join((said, *fields[:MOST_NAMES])), _LONGEST_WHOLE)


_FIELDS_BELOW = 14
_LONGEST_WHOLE = 320
_FIELD = re.compile(r"\s*(?:[A-Z#][\w #]{1,22}|[a-z]+_[a-z_]+): {1,12}\S")


_PARTS: Mapping[str, Callable[[Any, _Asked], list[Outcome]]] = {
    "version": lambda part, of: [
        _version(name, text, of.evidence, of.newest.get(name)) for name, text in part.items()
    ],
    "set": lambda part, of: [_variable(of.evidence, name, _is_set) for name in part],
    "unset": lambda part, of: [_variable(of.evidence, name, _is_unset) for name in part],
    "named": lambda part, of: _named(part, of.evidence),
    "equals": lambda part, of: [
        _variable(of.evidence, name, functools.partial(_same, value))
        for name, value in part.items()
    ],
    "matches": lambda part, of: [
        _variable(of.evidence, name, functools.partial(_found, pattern))
        for name, pattern in part.items()
    ],
    "fact": lambda part, of: [
        _fact(of.evidence, name, tuple(value) if isinstance(value, list) else (value,))
        for name, value in part.items()
    ],
    "above": lambda part, of: [
        _number(of.evidence, name, functools.partial(operator.lt, limit))
        for name, limit in part.items()
    ],
    "below": lambda part, of: [
        _number(of.evidence, name, functools.partial(operator.gt, limit))
        for name, limit in part.items()
    ],
    "log": lambda part, of: [_log(part, of.condition.get("not-by", ()), of.evidence)],
    "not-by": lambda *_: [],
    "speaker": lambda part, of: [_speaker(part, of.condition.get("stage", ()), of.evidence)],
    "stage": lambda *_: [],
    "all": lambda _, of: [_all(of.inner("all"))],
    "any": lambda _, of: [_any(of.inner("any"))],
    "not": lambda part, of: [_not(evaluate(part, of.evidence, of.newest))],
    "unless": lambda part, of: [_unless(evaluate(part, of.evidence, of.newest))],
}
