"""Sources of programs, from a folder or an archive: their files, and one file with all of them."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from stackproof.build.effects.workspace import download_path
from stackproof.build.programs import ProgramWish, StackProgram, parse_programs, source_of
from stackproof.build.stack import Digest, SourceFile
from stackproof.core import ids, limits
from stackproof.core.document import Document
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.image.container import tar
from stackproof.image.container.effects import layers
from stackproof.recipe.effects import inheritance

# What a folder may have besides sources: a checkout's history, and what somebody compiled there.
_LEFT_OUT = frozenset({".git", ".svn", ".libs", ".deps", "autom4te.cache"})
_OBJECTS = frozenset({".o", ".lo", ".la", ".a"})
_TIME = 1577836800  # 2020-01-01: all files of the same age, so that make makes none again


def load_sources(program: ProgramWish) -> Mapping[str, bytes]:
    """Return the files of a program's sources, without the folder that an archive has around them.

    Raises `StackproofError`: FILE_MISSING, DIGEST_MISMATCH, TOO_LARGE, UNSUPPORTED for an archive
    with sparse files, INVALID_VALUE for what is no archive, and for a link that leads out of the
    folder.
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
        files_of = dict(_limit_files(_read_folder(path), path))
    elif os.path.isfile(path):
        _require_digest(program)
        files_of = dict(_limit_files(_read_archive(path), path))
    else:
        raise _no_archive(path, "it is neither a file nor a folder")
    folders = {str(folder) for name in files_of for folder in PurePosixPath(name).parents}
    if both := sorted(folders & files_of.keys()):
        raise _no_archive(path, f"`{both[0][:80]}` is a file and a folder in it")
    first = {name.partition("/")[0] for name in files_of}
    only = first.pop() if len(first) == 1 else ""
    if only and only not in files_of:
        files_of = {name[len(only) + 1 :]: content for name, content in files_of.items()}
    return files_of


def _require_digest(program: ProgramWish) -> None:
    got = files.sha256(program.source)
    if program.sha256 and got != program.sha256:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"`{program.source}` is not the archive that is meant: its SHA-256 is {got}",
            where=Location(file=program.source),
            hint=f"the specification says {program.sha256}: get that one, or correct `sha256`",
        )


def _read_folder(path: str) -> Iterator[tuple[str, bytes]]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for name in sorted(names):
            whole = os.path.join(folder, name)
            if os.path.splitext(name)[1] not in _OBJECTS and os.path.isfile(whole):
                real = _resolve_inside(whole, path)
                with open(real, "rb", opener=_open_plain) as stream:
                    yield (
                        os.path.relpath(whole, path),
                        stream.read(limits.PROGRAM_SOURCES.bytes + 1),
                    )


def _resolve_inside(path: str, folder: str) -> str:
    """Return the file that a path leads to; raises `StackproofError` for one out of the folder."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    if real.startswith(f"{root.rstrip('/')}/"):
        return real
    raise fail(
        Reason.INVALID_VALUE,
        f"`{path}` is a link out of the folder of the sources",
        where=Location(file=path),
        hint="put the file there in its place",
    )


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _read_archive(path: str) -> Iterator[tuple[str, bytes]]:
    most = limits.PROGRAM_SOURCES
    try:
        with (
            tempfile.TemporaryDirectory() as aside,
            layers.open_plain(layers.whole(path), hashlib.sha256(), aside) as stream,
        ):
            for count, member in enumerate(tar.entries(stream), 1):
                if count > most.count or member.size > most.bytes:
                    raise _too_large(path)
                parts = PurePosixPath(member.name).parts
                if member.kind != "file" or ".." in parts or member.name.startswith("/"):
                    continue  # links and devices are no sources, and nothing is written outside
                content = stream.read(member.size)
                if len(content) < member.size:
                    raise _no_archive(path, "it ends within a file")
                yield str(PurePosixPath(member.name)), content
            stream.finish()
    except StackproofError as error:
        if error.reason is Reason.TOO_LARGE:
            raise _too_large(path) from None
        if error.reason in {Reason.IMAGE_UNREADABLE, Reason.UNSUPPORTED}:
            raise _no_archive(path, error.problems[0].message.rpartition(": ")[2]) from None
        raise


def _no_archive(path: str, why: str) -> StackproofError:
    return fail(
        Reason.INVALID_VALUE,
        f"`{path}` cannot be read as an archive: {why}",
        where=Location(file=path),
        hint="name a .tar, .tar.gz, .tar.bz2, .tar.xz or .tar.zst, or a folder",
    )


def _too_large(path: str) -> StackproofError:
    most = limits.PROGRAM_SOURCES
    return fail(
        Reason.TOO_LARGE,
        f"`{path}` holds more than the sources of a program",
        where=Location(file=path),
        hint=f"they have at most {most.count} files and {most.bytes >> 20} MiB",
    )


def _limit_files(files_of: Iterator[tuple[str, bytes]], path: str) -> Iterator[tuple[str, bytes]]:
    """Yield files until they are more than a benchmark's sources can be; raises TOO_LARGE."""
    total, most = 0, limits.PROGRAM_SOURCES
    for count, (name, content) in enumerate(files_of, 1):
        total += len(content)
        if total > most.bytes or count > most.count:
            raise _too_large(path)
        yield name, content


def load_programs(
    document: Document,
) -> tuple[tuple[StackProgram, ...], Mapping[str, Path]]:
    """Return the programs of a recipe, and where the files with their sources lie, by digest.

    They are packed into the cache, where steps look for what they fetch. Raises `StackproofError`
    with what is wrong with any, at its place in the recipe: what `load_sources` and `source_of`
    raise, and INVALID_VALUE for sources that lie outside of the recipe's folder.
    """
    programs, places, problems = [], {}, []
    for index, wish in enumerate(parse_programs(document.data)):
        where = document.where("programs", index, "source")
        try:
            program, content = _load(document, wish, where)
        except StackproofError as error:
            problems += [replace(problem, where=where) for problem in error.problems]
            continue
        file = program.artefact
        target = download_path(file.sha256, file.filename)
        if not target.is_file() or files.sha256(target) != file.sha256:
            files.write(target, content)
        programs.append(program)
        places[file.sha256] = target
    if problems:
        raise StackproofError(*problems)
    return tuple(programs), places


def _load(document: Document, wish: ProgramWish, where: Location) -> tuple[StackProgram, bytes]:
    own = replace(document, file=where.file)  # of what is inherited, the file that names it
    root = os.path.dirname(document.file) or "."
    path = inheritance.beside(own, wish.source, root, where)
    files_of = load_sources(replace(wish, source=path))
    source = source_of(replace(wish, source=path), files_of)
    content = pack_files(files_of)
    origin = f"{wish.source}, sha256 {files.sha256(path)}" if os.path.isfile(path) else wish.source
    digest = Digest(sha256=ids.digest(content), provenance=f"files of {origin}")
    program = StackProgram(
        name=wish.name,
        source=SourceFile(filename=f"{wish.name}.tar", accepted=(digest,)),
        commands=source.commands,
        outputs=source.outputs,
    )
    return program, content


def pack_files(files_of: Mapping[str, bytes]) -> bytes:
    """Return files as a tar archive: the same bytes wherever they lay, and whoever owned them.

    Scripts are executable, as makefiles may call them.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files_of.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), _TIME
            entry.mode = 0o755 if content.startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()
