"""The benchmark programs of a specification: what an entry means, and what of it cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stackproof.bench.programs.osu_test import OSU_TESTS, SUITE
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value, replace
from stackproof.results.metrics import CORE


class Program(Value):
    """A benchmark program to run; without `benchmarks` it runs the specification's.

    `source` is a folder or an archive with its sources, from which it is compiled for every arm
    that does not bring it, empty where all do; `sha256` is the archive's, `configure` words for its
    `configure`. `options` are words for the program. Each of OSU's tests is a program.
    """

    name: str
    benchmarks: tuple[str, ...] = ()
    source: str = ""
    sha256: str = ""
    configure: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


_KEYS = {
    "stackproof-bench": {"name", "benchmarks"},
    "IMB-MPI1": {"name", "benchmarks", "source", "sha256"},
    SUITE: {"name", "benchmarks", "source", "sha256", "configure", "options"},
}


def programs_of(entry: Any, benchmarks: Sequence[str], source: str) -> Iterator[Program]:
    """Yield the program that an entry means; of OSU's a program for each benchmark.

    `benchmarks` are the specification's, `source` is the entry's as an absolute path.
    """
    if isinstance(entry, str):
        yield Program(name=entry)
        return
    own = tuple(entry.get("benchmarks", ()))
    found = Program(
        name=entry["name"],
        benchmarks=own,
        source=source,
        sha256=entry.get("sha256", ""),
        configure=tuple(entry.get("configure", ())),
        options=tuple(entry.get("options", ())),
    )
    if found.name != SUITE:
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


def _all_bring(document: Document) -> bool:
    """Return whether all arms are of a kind whose modules may bring any program."""
    arms = [document.data["baseline"], *document.data.get("challengers", [])]
    return all("eessi" in arm for arm in arms)


def _problems(document: Document, index: int, entry: dict[str, Any]) -> Iterator[Problem]:
    name = entry["name"]
    wrong: list[tuple[tuple[str | int, ...], str, str]] = [
        ((key,), f"`{key}` is not for `{name}`", "leave it out")
        for key in entry
        if key not in _KEYS[name]
    ]
    if name == SUITE and "source" not in entry and not _all_bring(document):
        said = f"`{SUITE}` is compiled from its sources, and nothing says where they are"
        hint = "name the archive or its folder with `source`; a module of EESSI brings it, too"
        wrong.append((("name",), said, hint))
    elif "sha256" in entry and "source" not in entry:
        wrong.append((("sha256",), "there is no archive with this SHA-256", "add `source`"))
    if name != SUITE:
        has = f"it measures: {', '.join(CORE)}; `{SUITE}` has the others"
        wrong += [
            (("benchmarks", place), f"`{name}` does not measure `{one}`", has)
            for place, one in enumerate(entry.get("benchmarks", ()))
            if one not in CORE
        ]
    for path, message, hint in wrong:
        where = document.where("programs", index, *path)
        yield Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)
