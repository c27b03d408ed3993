"""The knowledge nouns, settings and known problems, and their reading from data of YAML.

It comes with stackproof, so that tests check it, and not each start.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import field

from stackproof.core import document as documents
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.knowledge.variables import ReadVariable

Noun = TypeVar("Noun", bound=Value)

UNVERSIONED = frozenset({"launcher", "nccl", "system", "ucx"})
"""Components of settings whose releases were not compared."""
OTHERS = frozenset({"nvidia-driver", "pmix", "prrte", "slurm"})
"""Components that rules name though no release of them was looked at."""


class Severity(StrEnum):
    """How bad a known problem is, the worst first."""

    WRONG = "wrong"
    FAILS = "fails"
    BUILD = "build"
    SLOW = "slow"
    HARMLESS = "harmless"


class PublicSource(Value):
    """A public document."""

    id: str
    title: str
    url: str


class Default(Value):
    """What holds for some versions when a setting is not set."""

    value: str
    versions: str = ":"


class Setting(Value):
    """Variables or options that belong together; `versions` are those of `component`."""

    component: str
    names: tuple[str, ...]
    kind: str = "variable"
    versions: str = ":"
    defaults: tuple[Default, ...] = ()
    when: str
    values: tuple[str, ...] = ()
    effect: str
    evidence: tuple[str, ...]
    sources: tuple[PublicSource, ...]
    allowed: tuple[str, ...] = ()


class Rule(Value):
    """A known problem; `when` and `supported_by` are conditions, see schemas/rules.json.

    `outranks` are problems that it explains, or that do not matter while it is there. A `symptom`
    tells what happened more than why.
    """

    id: str
    name: str
    severity: Severity
    title: str
    when: Mapping[str, Any]
    supported_by: Mapping[str, Any] | None = None
    cause: str
    remedy: str
    commands: tuple[str, ...] = ()
    evidence: tuple[str, ...]
    sources: tuple[PublicSource, ...]
    outranks: tuple[str, ...] = ()
    symptom: bool = False

    @property
    def number(self) -> int:
        """Return the number of its id."""
        return int(self.id[1:])


class Knowledge(Value):
    """Everything together; `newest` are the newest releases that were looked at.

    `variables` are names that releases read, with a setting of theirs or without.
    """

    settings: tuple[Setting, ...] = ()
    rules: tuple[Rule, ...] = ()
    newest: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[ReadVariable, ...] = ()


def read_knowledge(
    sources: Mapping[str, Any],
    settings: Sequence[Mapping[str, Any]],
    rules: Sequence[Mapping[str, Any]],
) -> Knowledge:
    """Return the knowledge in the data of its files, which fit their schemas."""
    known = {
        name: PublicSource(id=name, title=body["title"], url=body["url"])
        for name, body in sources["sources"].items()
    }

    def shaped(kind: type[Noun], entry: Mapping[str, Any], **made: Any) -> Noun:
        return documents.shaped(
            kind, entry, sources=tuple(known[name] for name in entry["sources"]), **made
        )

    return Knowledge(
        settings=tuple(
            shaped(
                Setting, entry, component=file["component"],
                defaults=tuple(Default(**default) for default in entry.get("defaults", ())),
            )
            for file in settings
            for entry in file["settings"]
        ),
        rules=tuple(
            shaped(Rule, entry, severity=Severity(entry["severity"]))
            for entry in sorted(
                (entry for file in rules for entry in file["rules"]),
                key=lambda entry: int(entry["id"][1:]),
            )
        ),
        newest=dict(sources["newest"]),
    )  # fmt: skip


Entry = Setting | Rule | ReadVariable


def find(knowledge: Knowledge, name: str) -> tuple[Entry, ...]:
    """Return the entries of a name or an id; several where several components read a variable.

    Raises `StackproofError` (USAGE) with names that are nearly the same.
    """
    entries: dict[str, list[Entry]] = {}
    for setting in knowledge.settings:
        for setting_name in setting.names:
            entries.setdefault(setting_name, []).append(setting)
    for rule in knowledge.rules:
        entries[rule.id] = entries[rule.name] = [rule]
    for variable in knowledge.variables:
        known = entries.get(variable.name, ())
        readers = [getattr(entry, "component", "") for entry in known]
        if variable.component not in readers:
            entries.setdefault(variable.name, []).append(variable)
    by_case = {key.lower(): key for key in entries}
    if name.lower() in by_case:
        return tuple(entries[by_case[name.lower()]])
    guess = ", ".join(f"`{by_case[other]}`" for other in _related(name.lower(), by_case))
    pieces = (f"did you mean {guess}?" * bool(guess), _with_word(name.lower(), knowledge.rules))
    raise fail(
        Reason.USAGE,
        f"nothing is known of `{name}`",
        hint=" ".join(filter(None, pieces)) or "`stackproof explain` lists everything",
    )


def _with_word(word: str, rules: Sequence[Rule]) -> str:
    """Return the known problems that have a word, without its ending; those in titles first."""
    stem = re.sub("(ion|ing|ed|es?|s)$", "", word)
    titled = [rule for rule in rules if stem in f"{rule.name} {rule.title}".lower()]
    others = [rule for rule in rules if stem in rule.cause.lower() and rule not in titled]
    named = [f"{rule.id} ({rule.title})" for rule in (*titled, *others)] * (len(stem) > 3)
    more = f" and {len(named) - 5} more" * (len(named) > 5)
    return f"known problems with this word: {', '.join(named[:5])}{more}" if named else ""


def _related(name: str, known: Collection[str]) -> list[str]:
    """Return up to three names that are nearly the same and begin with the same word.

    Another beginning is a slip only in a name that is otherwise the same.
    """
    first = re.split(r"[_ -]", name)[0]
    near = {}
    for other in known:
        ratio = difflib.SequenceMatcher(None, name, other).ratio()
        if ratio >= (0.8 if other.startswith(first) else 0.87):
            near[other] = ratio
    best = sorted(near, key=lambda other: -near[other])[:3]
    return [other for other in best if near[other] > near[best[0]] - 0.05]


def words(condition: Mapping[str, Any]) -> str:
    """Return a condition as words."""
    parts = [f"{name} {text}" for name, text in condition.get("version", {}).items()]
    parts += [f"{name} is {_or(value)}" for name, value in condition.get("fact", {}).items()]
    parts += [f"{name} above {number:g}" for name, number in condition.get("above", {}).items()]
    parts += [f"{name} below {number:g}" for name, number in condition.get("below", {}).items()]
    parts += [f"{name}={value}" for name, value in condition.get("equals", {}).items()]
    parts += [f"{name} holds `{one}`" for name, one in condition.get("matches", {}).items()]
    parts += [f"{name} is set" for name in condition.get("set", ())]
    parts += [f"{name} is not set" for name in condition.get("unset", ())]
    if "named" in condition:
        parts.append(f"a variable is named like `{condition['named']}`")
    if "log" in condition:
        # A pattern may hold a backtick itself; Markdown then wants two around it.
        fence = "``" if "`" in condition["log"] else "`"
        others = f" (not by: {', '.join(condition['not-by'])})" if "not-by" in condition else ""
        parts.append(f"the job printed {fence}{condition['log']}{fence}{others}")
    if "speaker" in condition:
        at = f", at {_or(condition['stage'])}" if "stage" in condition else ""
        parts.append(f"the first to say that something failed was {_or(condition['speaker'])}{at}")
    parts += [words(inner) for inner in condition.get("all", ())]
    if "any" in condition:
        parts.append(f"({' or '.join(words(inner) for inner in condition['any'])})")
    if "not" in condition:
        parts.append(f"not ({words(condition['not'])})")
    if "unless" in condition:
        parts.append(f"not known to be ({words(condition['unless'])})")
    return " and ".join(parts)


def _or(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " or ".join(value) if isinstance(value, list) else str(value)
