"""The benchmark programs of a specification: what an entry means, and what of it cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stackproof.bench.programs import solver
from stackproof.bench.programs.osu import OSU_TESTS
from stackproof.build.programs import IMB, OSU, ProgramWish
from stackproof.core.document import Document
from stackproof.core.errors import Problem
from stackproof.core.value import Value, replace
from stackproof.results.metrics import CORE, SOLVER

SHIPPED = "shipped"
"""In the place of a path: the sources come with stackproof."""


class Program(Value):
    """A benchmark program to run; without `benchmarks` it runs the specification's.

    `source` is a folder or an archive with its sources, from which it is compiled for every arm
    that does not bring it, `SHIPPED` for ours, empty where all do; `sha256` is the archive's,
    `configure` words for its `configure`. `options` are words for the program. Each of OSU's tests
    is a program.
    """

    name: str
    benchmarks: tuple[str, ...] = ()
    source: str = ""
    sha256: str = ""
    configure: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def sources(self) -> ProgramWish:
        """Return the sources that it is compiled from; OSU's programs have theirs in common."""
        return ProgramWish(
            name=OSU if self.name in _OF_OSU else self.name,
            source=self.source,
            sha256=self.sha256,
            configure=self.configure,
        )


_BRING = {"eessi", "image", "pack"}
_OF_OSU = frozenset(test.program for test in OSU_TESTS.values())
_KEYS = {
    "stackproof-bench": {"name", "benchmarks"},
    solver.NAME: {"name", "benchmarks", "options"},
    IMB: {"name", "benchmarks", "source", "sha256"},
    OSU: {"name", "benchmarks", "source", "sha256", "configure", "options"},
}


def programs_of(entry: Any, benchmarks: Sequence[str], source: str) -> Iterator[Program]:
    """Yield the program that an entry means; of OSU's a program for each benchmark.

    `benchmarks` are the specification's, `source` is the entry's as an absolute path.
    """
    if isinstance(entry, str):
        entry = {"name": entry}
    own = tuple(entry.get("benchmarks", ()))
    found = Program(
        name=entry["name"],
        benchmarks=own,
        source=SHIPPED if entry["name"] == solver.NAME else source,
        sha256=entry.get("sha256", ""),
        configure=tuple(entry.get("configure", ())),
        options=tuple(entry.get("options", ())),
    )
    if found.name != OSU:
        yield found
        return
    for name in own or benchmarks or CORE:
        yield replace(found, name=OSU_TESTS[name].program, benchmarks=(name,))


def program_problems(document: Document) -> list[Problem]:
    """Return what of a specification's programs cannot be."""
    return [
        problem
        for index, entry in enumerate(document.data.get("programs", []))
        if not isinstance(entry, str)
        for problem in _problems(document, index, entry)
    ]


def _may_bring(document: Document) -> bool:
    """Return true where all arms are of a kind that may bring programs along."""
    arms = [document.data["baseline"], *document.data.get("challengers", [])]
    return all(isinstance(arm, str) or _BRING & arm.keys() for arm in arms)


def _problems(document: Document, index: int, entry: dict[str, Any]) -> Iterator[Problem]:
    name = entry["name"]
    wrong: list[tuple[tuple[str | int, ...], str, str]] = [
        ((key,), f"`{key}` is not for `{name}`", "leave it out")
        for key in entry
        if key not in _KEYS[name]
    ]
    if name == OSU and "source" not in entry and not _may_bring(document):
        said = f"`{OSU}` is compiled from its sources, and nothing says where they are"
        hint = (
            "name the archive or its folder with `source`; images, packs and modules may bring it"
        )
        wrong.append((("name",), said, hint))
    elif "sha256" in entry and "source" not in entry:
        wrong.append((("sha256",), "there is no archive with this SHA-256", "add `source`"))
    if name != OSU:
        known = SOLVER if name == solver.NAME else CORE
        has = f"it measures: {', '.join(known)}; `{OSU}` and our other program have more"
        wrong += [
            (("benchmarks", place), f"`{name}` does not measure `{one}`", has)
            for place, one in enumerate(entry.get("benchmarks", ()))
            if one not in known
        ]
    for path, message, hint in wrong:
        yield document.problem(("programs", index, *path), message, hint)
