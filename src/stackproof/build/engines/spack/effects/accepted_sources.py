"""The operating system's sources that a recipe accepts, beside it on disk and into its stack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack.effects import os_sources
from stackproof.build.engines.spack.os_sources import NAMESPACE, source_problems, with_os_sources
from stackproof.build.engines.spack.stack import OsSource, OsSources, SpackLock, SpackStack
from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.noun import from_json, to_json


def load(path: Path) -> tuple[OsSource, ...]:
    """Return the sources that a file lists; none when there is no such file.

    Raises `StackproofError`: what `noun.from_json` raises, INVALID_VALUE with all problems at once.
    """
    try:
        text = files.read_bounded(path, limits.LOCK)
    except StackproofError as error:
        if error.reason is Reason.FILE_MISSING:
            return ()
        raise
    sources = from_json(OsSources, text, file=str(path)).sources
    problems = source_problems(sources, str(path))
    if problems:
        raise StackproofError(*problems)
    return sources


def save(path: Path, sources: tuple[OsSource, ...]) -> None:
    """Write the list, in the order of the packages' names; no file for an empty one."""
    if sources:
        ordered = tuple(sorted(sources, key=lambda source: source.name))
        files.write(path, to_json(OsSources(sources=ordered)))
    else:
        files.remove(path)


def accept(
    stack: SpackStack, blobs: Mapping[str, Path], path: Path
) -> tuple[SpackStack, Mapping[str, Path]]:
    """Return a stack that accepts the sources of a file, and where its files lie by digest.

    Raises `StackproofError` like `load`.
    """
    accepting, made = with_os_sources(stack, load(path))
    if not made:
        return stack, blobs
    found = dict(blobs)
    for digest, content in made.items():
        found[digest] = cache_kinds.home("os-sources") / digest / "package.py"
        if not found[digest].is_file() or found[digest].read_bytes() != content:
            files.write(found[digest], content)
    return accepting, found


def accepted_problems(
    stack: SpackStack, path: Path, lock: SpackLock | None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return what is wrong with the accepted sources of a stack, and what should be known.

    `path` is the file that accepts them. Wrong is a digest that the archive does not state any
    more, as far as its index is on this machine. To be known are sources that a lock does without.
    """
    where = Location(file=str(path))
    nodes = locks.everything(lock, stack.mount).values() if lock else ()
    used = {(n.name, n.version) for n in nodes if n.namespace == NAMESPACE}
    problems, notes = [], []
    for source in stack.os_sources:
        named = f"{source.name} {source.version}"
        there = os_sources.indexed(source)
        if there is not None and there != source.sha256:
            problems.append(
                Problem(
                    reason=Reason.DIGEST_MISMATCH,
                    message=f"{source.suite} states another digest for {source.source} "
                    f"{source.source_version}: the accepted source of {named} has changed",
                    detail=f"accepted sha256 {source.sha256}\nindex    sha256 {there}",
                    where=where,
                    hint="find out why; then accept it again: "
                    f"stackproof mirror add-os-sources RECIPE {source.name}",
                )
            )
        if lock is not None and (source.name, source.version) not in used:
            notes.append(
                Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"no package of the stack uses the accepted source of {named}",
                    where=where,
                    hint="let a spec ask for this version, or remove the entry from the file",
                )
            )
    return tuple(problems), tuple(notes)
