"""What values that are handed to MPI mean, by MPI and release: `knowledge/mpi-constants.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stackproof.core.errors import StackproofError
from stackproof.core.value import Value

if TYPE_CHECKING:
    from stackproof.core.document import Document

SCHEMA = "mpi-constants"
EVERY = "*"


class Meaning(Value):
    """What releases of one MPI mean by a value.

    `name` is the constant, empty where they lack it: then `fails` are the functions that go wrong
    with it, `harmless` those that do not care. Where they have it, `doubtful` are functions that
    do not always take it. `first` and `last` are empty for no end.
    """

    family: str
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    name: str = ""
    fails: frozenset[str] = frozenset({EVERY})
    harmless: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()

    def holds_for(self, family: str, release: tuple[int, ...]) -> bool:
        """Return true for a release of the MPI that the meaning holds for."""
        before = not self.last or release[: len(self.last)] <= self.last
        return family == self.family and self.first <= release and before


class KnownValue(Value):
    """A value, the functions that it has its meanings for (none stands for all), and these."""

    value: int
    functions: frozenset[str]
    meanings: tuple[Meaning, ...]

    def meaning(self, family: str, release: str) -> Meaning | None:
        """Return the meaning in a release, None where that is not known."""
        numbers = _numbers(release)
        if not numbers:
            return None
        return next(
            (meaning for meaning in self.meanings if meaning.holds_for(family, numbers)), None
        )

    def names(self, families: frozenset[str]) -> tuple[str, ...]:
        """Return the constants that have the value in any release of some MPIs."""
        return tuple(
            dict.fromkeys(
                meaning.name
                for meaning in self.meanings
                if meaning.name and meaning.family in families
            )
        )


def find(values: tuple[KnownValue, ...], value: int, function: str) -> KnownValue | None:
    """Return the known meanings of a value as an argument; empty stands for any."""
    for known in values:
        if known.value == value and (function in known.functions or not known.functions):
            return known
    return None


def _numbers(release: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(map(int, match.group().split("."))) if match else ()


def parse_values(document: Document) -> tuple[KnownValue, ...]:
    """Return the values of a document; raises `StackproofError` with every problem."""
    from stackproof.core import document as documents  # noqa: PLC0415 - slow to import, rarely needed

    problems = [*documents.problems(document, SCHEMA)]
    if not problems:
        for number, constant in enumerate(document.data["constants"]):
            for row, entry in enumerate(constant["rows"]):
                if entry["of"] not in document.data["sources"]:
                    place = ("constants", number, "rows", row, "of")
                    text = f"`{entry['of']}` is not one of the `sources`"
                    problems.append(document.problem(place, text, "add it there"))
    if problems:
        raise StackproofError(*problems)
    groups = document.data["groups"]
    return tuple(
        KnownValue(
            value=constant["value"],
            functions=frozenset(constant.get("handed-to", ())),
            meanings=tuple(_meaning(entry, groups) for entry in constant["rows"]),
        )
        for constant in document.data["constants"]
    )


def _meaning(entry: Mapping[str, object], groups: Mapping[str, list[str]]) -> Meaning:
    first, _, last = str(entry["releases"]).partition("..")
    return Meaning(
        family=str(entry["of"]),
        first=_numbers(first),
        last=_numbers(last),
        name=str(entry.get("is", "")),
        fails=_functions(entry.get("fails-in", [EVERY]), groups),
        harmless=_functions(entry.get("harmless-in", ()), groups),
        doubtful=_functions(entry.get("doubtful-in", ()), groups),
    )


def _functions(words: object, groups: Mapping[str, list[str]]) -> frozenset[str]:
    functions: set[str] = set()
    for word in words if isinstance(words, list) else ():
        functions.update(groups.get(word, (word,)))
    return frozenset(functions)
