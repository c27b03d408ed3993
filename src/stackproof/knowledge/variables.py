"""The table of variables that releases of MPIs read, made by tools/read_variables.py, to values.

It tells names, releases and defaults, and no meaning: entries of `settings` have that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stackproof.core.value import Value

FILE = "variables.tsv"
_ORIGIN_FIELDS = 4
_RELEASE = r"\d+(?:\.\d+)*"
_SPAN = re.compile(rf"(?P<first>{_RELEASE})(?:\.\.(?P<last>{_RELEASE}))?(?:=(?P<default>.*))?")


class VariableSpan(Value):
    """Releases from `first` to `last` in which a variable has one default, None where unknown."""

    first: str
    last: str
    default: str | None = None

    @property
    def releases(self) -> str:
        """Return its releases in words."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"

    @property
    def words(self) -> str:
        """Return its releases in words, with the default where it is known."""
        known = "" if self.default is None else f" (default {self.default or 'empty'})"
        return self.releases + known


class ReadVariable(Value):
    """A variable of one component; `looked_at` are the releases that were asked, oldest first.

    `source` names what was looked at, `command` has an installation describe the variable.
    """

    component: str
    name: str
    spans: tuple[VariableSpan, ...]
    looked_at: tuple[str, ...]
    source: str = ""
    command: str = ""

    @property
    def words(self) -> str:
        """Return all spans in words."""
        return "; ".join(span.words for span in self.spans)


def parse_variables(text: str) -> tuple[ReadVariable, ...]:
    """Return the variables of the table."""
    origins: dict[str, list[str]] = {}
    variables = []
    for line in text.splitlines():
        component, *fields = line.split("\t")
        if component.startswith("# ") and len(fields) == _ORIGIN_FIELDS:
            origins[component.removeprefix("# ")] = fields
        elif fields and component in origins:
            source, command, prefix, releases = origins[component]
            name, *spans = fields
            variables.append(
                ReadVariable(
                    component=component, name=name, spans=tuple(_spans(spans)), source=source,
                    looked_at=tuple(releases.split()),
                    command=f"{command} | grep -A9 {name.removeprefix(prefix)}",
                )
            )  # fmt: skip
    return tuple(variables)


def _spans(texts: list[str]) -> Iterator[VariableSpan]:
    for text in texts:
        match = _SPAN.fullmatch(text)
        if match is not None:
            first, last = match["first"], match["last"] or match["first"]
            yield VariableSpan(first=first, last=last, default=match["default"])
