"""The knowledge nouns, settings and known problems, and their reading from YAML.

A file that lacks a source, or names a version, a fact or a rule that cannot be, is refused with
every problem at once.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import field

from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import Value
from stackproof.core.versions import versions
from stackproof.knowledge.evidence import FACTS
from stackproof.knowledge.variables import ReadVariable

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


class KnowledgeFiles(Value):
    """The documents that knowledge is made of."""

    sources: Document
    settings: tuple[Document, ...]
    rules: tuple[Document, ...]


def parse_knowledge(files: KnowledgeFiles) -> Knowledge:
    """Return the knowledge in the files; raises `StackproofError` with every problem of all."""
    found = [*documents.problems(files.sources, "knowledge-sources")]
    for document in files.settings:
        found += documents.problems(document, "settings")
    for document in files.rules:
        found += documents.problems(document, "rules")
    if not found:
        found = [*_lint(files)]
    if found:
        raise StackproofError(*found)
    known = {
        name: PublicSource(id=name, title=body["title"], url=body["url"])
        for name, body in files.sources.data["sources"].items()
    }

    def sources(entry: Mapping[str, Any]) -> tuple[PublicSource, ...]:
        return tuple(known[name] for name in entry["sources"])

    rules = [entry for document in files.rules for entry in document.data["rules"]]
    return Knowledge(
        settings=tuple(
            documents.shaped(
                Setting, entry, component=document.data["component"], sources=sources(entry),
                defaults=tuple(Default(**default) for default in entry.get("defaults", ())),
            )
            for document in files.settings
            for entry in document.data["settings"]
        ),
        rules=tuple(
            documents.shaped(
                Rule, entry, severity=Severity(entry["severity"]), sources=sources(entry)
            )
            for entry in sorted(rules, key=lambda entry: int(entry["id"][1:]))
        ),
        newest=dict(files.sources.data["newest"]),
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
    raise fail(
        Reason.USAGE,
        f"nothing is known of `{name}`",
        hint=f"did you mean {guess}?" if guess else "`stackproof explain` lists everything",
    )


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
    return " and ".join(parts)


def _or(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " or ".join(value) if isinstance(value, list) else str(value)


# --- lint -----------------------------------------------------------------------------------


def _lint(files: KnowledgeFiles) -> Iterator[Problem]:
    """Yield the problems that a schema cannot see."""
    named = [(document, "settings") for document in files.settings]
    named += [(document, "rules") for document in files.rules]
    used: set[str] = set()
    for document, section in named:
        for index, entry in enumerate(document.data[section]):
            used.update(entry["sources"])
            yield from _unknown(
                document, (section, index, "sources"), entry["sources"],
                files.sources.data["sources"], "a source of sources.yaml",
            )  # fmt: skip
    for name in files.sources.data["sources"]:
        if name not in used:
            yield files.sources.problem(("sources", name), f"no entry has the source `{name}`")
    yield from _settings_lint(files)
    yield from _rules_lint(files)


def _settings_lint(files: KnowledgeFiles) -> Iterator[Problem]:
    newest = files.sources.data["newest"]
    for document in files.settings:
        component = document.data["component"]
        yield from _unknown(
            document, ("component",), [component], {*newest, *UNVERSIONED}, "a component"
        )
        seen: Counter[str] = Counter()
        for index, entry in enumerate(document.data["settings"]):
            path = ("settings", index)
            seen.update(entry["names"])
            yield from _range_problems(document, (*path, "versions"), entry.get("versions", ":"))
            for number, default in enumerate(entry.get("defaults", ())):
                place = (*path, "defaults", number, "versions")
                yield from _range_problems(document, place, default.get("versions", ":"))
            for name in entry["names"]:
                if seen[name] > 1:
                    yield document.problem((*path, "names"), f"`{name}` stands here twice")


def _rules_lint(files: KnowledgeFiles) -> Iterator[Problem]:
    components = {*files.sources.data["newest"], *OTHERS}
    seen: Counter[str] = Counter()
    known = {entry["id"] for document in files.rules for entry in document.data["rules"]}
    for document in files.rules:
        for index, entry in enumerate(document.data["rules"]):
            seen.update((entry["id"], entry["name"]))
            for word in (entry["id"], entry["name"]):
                if seen[word] > 1:
                    yield document.problem(("rules", index, "id"), f"`{word}` stands here twice")
            for key in ("when", "supported-by"):
                if key in entry:
                    path = ("rules", index, key)
                    yield from _condition_problems(document, path, entry[key], components)
            path = ("rules", index, "outranks")
            yield from _unknown(document, path, entry.get("outranks", ()), known, "a known problem")


def _condition_problems(
    document: Document,
    path: tuple[str | int, ...],
    condition: Mapping[str, Any],
    components: set[str],
) -> Iterator[Problem]:
    """Yield the problems of a condition and those inside it."""
    for name, text in condition.get("version", {}).items():
        place = (*path, "version", name)
        yield from _unknown(document, place, [name], components, "a component")
        yield from _range_problems(document, place, text)
    for key in ("fact", "above", "below"):
        for name in condition.get(key, {}):
            yield from _unknown(document, (*path, key, name), [name], FACTS, "a fact")
    for name, pattern in condition.get("matches", {}).items():
        yield from _pattern_problems(document, (*path, "matches", name), pattern)
    for key in ("log", "named"):
        if key in condition:
            yield from _pattern_problems(document, (*path, key), condition[key])
    for key in ("all", "any"):
        for index, inner in enumerate(condition.get(key, ())):
            yield from _condition_problems(document, (*path, key, index), inner, components)
    if "not" in condition:
        yield from _condition_problems(document, (*path, "not"), condition["not"], components)


def _range_problems(
    document: Document, path: tuple[str | int, ...], text: str
) -> Iterator[Problem]:
    """Yield a range that holds no version: its end is before its beginning, or it is none."""
    asked = versions(text)
    empty = [
        one
        for one in asked.ranges
        if one.low is not None and one.high is not None and one.low[: len(one.high)] > one.high
    ]
    if empty or not asked.known:
        yield document.problem(path, f"no version is in the range `{text}`")


def _pattern_problems(
    document: Document, path: tuple[str | int, ...], pattern: str
) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield document.problem(path, f"`{pattern}` is not a regular expression: {error}")


def _unknown(
    document: Document,
    path: tuple[str | int, ...],
    names: Sequence[str],
    known: Any,
    what: str,
) -> Iterator[Problem]:
    for name in names:
        if name not in known:
            guess = did_you_mean(name, known).strip() or None
            yield document.problem(path, f"`{name}` is not {what}", guess)
