"""Symbol-version nodes and the releases that they mean, from `knowledge/symbol-versions.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from stackproof.core.errors import StackproofError
from stackproof.core.value import Value
from stackproof.inject.values import KnownValue

if TYPE_CHECKING:
    from stackproof.core.document import Document

SCHEMA = "symbol-versions"
_SERVICE_PACK = re.compile(r"(?<![\s-])[\s-]*+(?<![a-z])sp\s*+(\d)")
# What follows a release, unless it is one of several.
_ONLY = r"(?!\.?\d)(?!\s*(?:[/+-]|,?\s*(?:or|and|to)\b|,\s*\d))"
_NODE = re.compile(r"([A-Z][A-Z0-9]*)_(\d+(?:\.\d+)*)")


class Releases(Value):
    """What nodes mean, by node: `FABRIC_1.7` to `libfabric 1.20`; and values handed to MPI.

    `systems` maps names and releases of distributions to the release of glibc that they have.
    """

    meanings: dict[str, str]
    values: tuple[KnownValue, ...] = ()
    systems: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def glibc_of(self, system: str) -> str:
        """Return the glibc of a system by its name, `SLES 15 SP5`; empty when not known."""
        text = _SERVICE_PACK.sub(r".\1", system.lower())
        names = sorted({name for name, _ in self.systems}, key=len, reverse=True)
        words = "|".join(map(re.escape, names))
        release = rf"(?<![\w-])({words})[\s-]*(\d+(?:\.\d+)*){_ONLY}"
        known = {self._glibc(*match.groups()) for match in re.finditer(release, text)}
        return known.pop() if len(known) == 1 else ""

    def _glibc(self, name: str, release: str) -> str:
        """Return the glibc of a release, or of the one that it begins with; empty for none."""
        while release and (name, release) not in self.systems:
            release = release.rpartition(".")[0]
        return self.systems.get((name, release), "")

    def nodes_of(self, product: str, release: str) -> dict[str, str]:
        """Return the newest node of each kind that a release of a product has."""
        wanted = _numbers(release)
        found: dict[str, str] = {}
        for node, meaning in self.meanings.items():
            name, _, first = meaning.rpartition(" ")
            kind = node.rpartition("_")[0]
            if name != product or not () < _numbers(first) <= wanted:
                continue
            if number_of(node) > number_of(found.get(kind, "")):
                found[kind] = node
        return found

    def meaning(self, node: str) -> str:
        """Return the first release that has a node, empty when unknown."""
        return self.meanings.get(node, "")

    def newest(self, nodes: Iterable[str]) -> str:
        """Return the node with the highest number, with its meaning; empty for none."""
        numbered = [(number_of(node), node) for node in nodes if _NODE.fullmatch(node)]
        if not numbered:
            return ""
        node = max(numbered)[1]
        return f"{node} ({self.meanings[node]})" if node in self.meanings else node


def _numbers(release: str) -> tuple[int, ...]:
    """Return the numbers that a release begins with, `1.20` as `1.20.0`; none without any."""
    match = re.match(r"\d+(?:\.\d+)*", release)
    numbers = list(map(int, match.group().split("."))) if match else []
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def number_of(node: str) -> tuple[int, ...]:
    """Return the numbers of a node, for comparing: `FABRIC_1.10` is (1, 10)."""
    match = _NODE.fullmatch(node)
    return tuple(map(int, match.group(2).split("."))) if match else ()


def parse_releases(document: Document) -> Releases:
    """Return what a document says of nodes; raises `StackproofError` with every problem."""
    from stackproof.core import document as documents  # noqa: PLC0415 - slow to import, rarely needed

    found = [*documents.problems(document, SCHEMA)]
    if not found:
        entries: list[tuple[tuple[str | int, ...], Any]]
        entries = [(("libraries", i), one) for i, one in enumerate(document.data["libraries"])]
        for number, family in enumerate(document.data.get("systems", ())):
            entries += [
                (("systems", number, "glibc", i), one) for i, one in enumerate(family["glibc"])
            ]
        found += [
            document.problem(
                (*path, "source"),
                f"`{entry['source']}` is not one of the `sources`",
                "add it there",
            )
            for path, entry in entries
            if entry["source"] not in document.data["sources"]
        ]
    if found:
        raise StackproofError(*found)
    meanings = {}
    for library in document.data["libraries"]:
        for entry in library["nodes"]:
            meanings[entry["node"]] = f"{library['name']} {entry['release']}"
    systems = {
        (name, entry["release"]): entry["glibc"]
        for family in document.data.get("systems", ())
        for name in family["names"]
        for entry in family["glibc"]
    }
    return Releases(meanings=meanings, systems=systems)


def nothing_known() -> Releases:
    """Return what those know who have no document at hand: no node has a meaning."""
    return Releases(meanings={})
