"""Sources of OSU's benchmarks and of IMB, from a folder or an archive, to what compiles them."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from stackproof.bench.effects.compile_program import ProgramSource
from stackproof.bench.program_spec import Program
from stackproof.bench.ready import MpiWrappers
from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, fail

IMB = "IMB-MPI1"
# What a folder may have besides sources: a checkout's history, and what somebody compiled there.
_LEFT_OUT = frozenset({".git", ".svn", ".libs", ".deps", "autom4te.cache"})
# make would run autoconf again where a file is newer than what was made of it.
_SAME_AGE = ("find", ".", "-exec", "touch", "-d", "2020-01-01", "{}", "+")
_OBJECTS = frozenset({".o", ".lo", ".la", ".a"})


def load_sources(program: Program) -> Mapping[str, bytes]:
    """Return the files of a program's sources, without the folder that an archive has around them.

    Raises `StackproofError`: FILE_MISSING, DIGEST_MISMATCH, TOO_LARGE, INVALID_VALUE for what is no
    archive.
    """
    path = program.source
    if not os.path.exists(path):
        raise fail(
            Reason.FILE_MISSING,
            f"there is no `{path}`",
            where=Location(file=path),
            hint=f"name the folder or the archive with the sources of {program.name}",
        )
    if os.path.isdir(path):
        if program.sha256:
            raise fail(
                Reason.INVALID_VALUE,
                f"`{path}` is a folder, which has no SHA-256",
                where=Location(file=path),
                hint="name the archive, or leave `sha256` out",
            )
        found = dict(_bounded(_of_folder(path), path))
    else:
        _require_digest(program)
        found = dict(_bounded(_of_archive(path), path))
    first = {name.partition("/")[0] for name in found}
    only = first.pop() if len(first) == 1 else ""
    if only and only not in found:
        found = {name[len(only) + 1 :]: content for name, content in found.items()}
    return found


def _require_digest(program: Program) -> None:
    got = files.sha256(program.source)
    if program.sha256 and got != program.sha256:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"`{program.source}` is not the archive that is meant: its SHA-256 is {got}",
            where=Location(file=program.source),
            hint=f"the specification says {program.sha256}: get that one, or correct `sha256`",
        )


def _of_folder(path: str) -> Iterator[tuple[str, bytes]]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for name in sorted(names):
            whole = os.path.join(folder, name)
            if os.path.splitext(name)[1] not in _OBJECTS and os.path.isfile(whole):
                with open(whole, "rb") as stream:
                    yield (
                        os.path.relpath(whole, path),
                        stream.read(limits.PROGRAM_SOURCES.bytes + 1),
                    )


def _of_archive(path: str) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if not member.isfile() or ".." in parts or member.name.startswith("/"):
                    continue  # links and devices are no sources, and nothing is written outside
                stream = archive.extractfile(member)
                if stream is not None:
                    yield (
                        str(PurePosixPath(member.name)),
                        stream.read(limits.PROGRAM_SOURCES.bytes + 1),
                    )
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{path}` cannot be read as an archive: {error}",
            where=Location(file=path),
            hint="name a .tar, .tar.gz, .tar.bz2 or .tar.xz, or a folder",
        ) from None


def _bounded(found: Iterator[tuple[str, bytes]], path: str) -> Iterator[tuple[str, bytes]]:
    """Yield files until they are more than a benchmark's sources can be; raises TOO_LARGE."""
    total, most = 0, limits.PROGRAM_SOURCES
    for count, (name, content) in enumerate(found, 1):
        total += len(content)
        if total > most.bytes or count > most.count:
            raise fail(
                Reason.TOO_LARGE,
                f"`{path}` holds more than the sources of a benchmark",
                where=Location(file=path),
                hint=f"they have at most {most.count} files and {most.bytes >> 20} MiB",
            )
        yield name, content


def source_of(
    programs: Sequence[Program], files_of: Mapping[str, bytes], compilers: MpiWrappers
) -> tuple[ProgramSource, Mapping[str, str]]:
    """Return what compiles programs of the same sources, and where each then is in the folder.

    Raises `StackproofError` (UNSUPPORTED) for sources that do not have them.
    """
    first = programs[0]
    plus = ("CXX={c++}",) if "c++" in compilers.wrappers else ()
    if first.name == IMB:
        _require(first, files_of, "Makefile", "src_cpp/Makefile")
        name, places = IMB, {IMB: IMB}
        commands: tuple[tuple[str, ...], ...] = (("make", IMB, "CC={c}", *plus),)
    else:
        _require(first, files_of, "configure")
        name, places = "osu", {one.name: _place(one, files_of) for one in programs}
        commands = (
            ("sh", "./configure", "CC={c}", *plus, *first.configure),
            ("make", "-j{jobs}"),
        )
    source = ProgramSource(
        name=name,
        files=files_of,
        commands=(_SAME_AGE, *commands),
        outputs=tuple(sorted(places.values())),
    )
    return source, places


def _require(program: Program, files_of: Mapping[str, bytes], *names: str) -> None:
    missing = [name for name in names if name not in files_of]
    if missing:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{program.source}` has no `{missing[0]}`: these are no sources of {program.name} "
            "that can be compiled",
            where=Location(file=program.source),
            hint="a checkout of OSU's needs `autoreconf -i` first; a release has `configure`",
        )


def _place(program: Program, files_of: Mapping[str, bytes]) -> str:
    """Return where one of OSU's programs is made: beside its source, where a release has that."""
    known = {
        PurePosixPath(name).stem: name.removesuffix(".c")
        for name in sorted(files_of)
        if "mpi" in PurePosixPath(name).parts and PurePosixPath(name).match("osu_*.c")
    }
    if program.name not in known:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{program.source}` has no `{program.name}`",
            where=Location(file=program.source),
            hint=f"this release has: {', '.join(known) or 'nothing of OSU'}",
        )
    return known[program.name]
