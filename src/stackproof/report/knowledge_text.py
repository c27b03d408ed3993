"""What is known of settings and problems, as text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stackproof.knowledge.model import Entry, Knowledge, Rule, Setting, words
from stackproof.knowledge.variables import ReadVariable

_INDENT = 12


def overview(knowledge: Knowledge, width: int) -> Iterator[str]:
    """Yield a line for everything that is known; `width` is in columns."""
    yield "Known problems"
    for rule in knowledge.rules:
        yield f"  {rule.id}  {rule.severity:<6} {rule.title}"
    component = ""
    for setting in knowledge.settings:
        if setting.component != component:
            component = setting.component
            yield f"\nSettings of {component}" if component != "launcher" else "\nLaunchers"
        yield from textwrap.wrap(
            ", ".join(setting.names), width, initial_indent="  ", subsequent_indent="    "
        )
    for component in dict.fromkeys(variable.component for variable in knowledge.variables):
        number = sum(variable.component == component for variable in knowledge.variables)
        yield f"\nVariables of {component} by name and release: {number}"


def lines_of(entry: Entry, width: int, variables: Sequence[ReadVariable] = ()) -> Iterator[str]:
    """Yield an entry as lines for people; `width` is in columns.

    `variables` tell in which releases the names of a setting are.
    """
    if isinstance(entry, ReadVariable):
        yield entry.name
        for label, text in _variable(entry):
            yield from labelled(label, text, width)
        return
    if isinstance(entry, Setting):
        yield ", ".join(entry.names)
        pairs = _setting(entry, variables)
    else:
        yield f"{entry.id} {entry.name}: {entry.title}"
        pairs = _rule(entry)
    for label, text in pairs:
        yield from labelled(label, text, width)
    yield from labelled("known by", ", ".join(entry.evidence).replace("-", " "), width)
    for number, source in enumerate(entry.sources):
        label = "sources" if not number else ""
        yield f"  {label:<{_INDENT - 2}}{source.title}"
        yield f"{'':<{_INDENT}}{source.url}"


def _variable(variable: ReadVariable) -> Iterator[tuple[str, str]]:
    yield "read by", variable.component
    yield from _seen([variable])
    yield "meaning", "not described here; an installation does it:"
    yield "", f"$ {variable.command}"
    yield "sources", variable.source


def _seen(variables: Sequence[ReadVariable]) -> Iterator[tuple[str, str]]:
    """Yield the releases that have variables, and all that were looked at."""
    for variable in variables:
        yield "seen in", (f"{variable.name}: " if variables[1:] else "") + variable.words
    for variable in variables[:1]:
        yield "looked at", ", ".join(variable.looked_at)


def _setting(setting: Setting, variables: Sequence[ReadVariable]) -> Iterator[tuple[str, str]]:
    versions = "" if setting.versions == ":" else f", versions {setting.versions}"
    yield "read by", f"{setting.component}{versions}"
    names = {(setting.component, name) for name in setting.names}
    yield from _seen([read for read in variables if (read.component, read.name) in names])
    if setting.kind != "variable":
        yield "kind", setting.kind
    for default in setting.defaults:
        there = "" if default.versions == ":" else f" (versions {default.versions})"
        yield "default", f"{default.value}{there}"
    yield "when", setting.when
    if setting.values:
        yield "values", ", ".join(setting.values)
    yield "effect", setting.effect


def _rule(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "severity", str(rule.severity)
    yield "when", words(rule.when)
    if rule.supported_by is not None:
        yield "shown by", words(rule.supported_by)
    yield "cause", rule.cause
    yield "remedy", rule.remedy
    for command in rule.commands:
        yield "", f"$ {command}"


def labelled(label: str, text: str, width: int) -> list[str]:
    """Return a text with its label, wrapped; a command (`$ …`) stays on its line."""
    if text.startswith("$ "):
        return [f"{'':<{_INDENT}}{text}"]
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"  {label:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
    )
