"""The operating system's sources that a recipe accepts, beside it on disk and into its stack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stackproof import limits
from stackproof.engines.spack.overlay import source_problems, with_os_sources
from stackproof.errors import Reason, StackproofError
from stackproof.host import cachekinds, files
from stackproof.noun import from_json, to_json
from stackproof.spackstack import OsSource, OsSources, SpackStack


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
        found[digest] = cachekinds.home("os-sources") / digest / "package.py"
        if not found[digest].is_file() or found[digest].read_bytes() != content:
            files.write(found[digest], content)
    return accepting, found
