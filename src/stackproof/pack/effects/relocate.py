"""A tree that was unpacked made to run where it lies: programs, run paths, texts, and a list."""

from __future__ import annotations

import contextlib
import mmap
import os
import posixpath
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.linking.effects import runpath
from stackproof.linking.elf import ElfFile
from stackproof.pack import prefixes
from stackproof.pack.effects.survey import Survey
from stackproof.pack.model import (
    C_LIBRARY,
    LIBRARIES,
    LOADER,
    STACK,
    Loading,
    Moved,
    TextKind,
    floor_of,
    is_loader,
    program_place,
    run_path,
)

# --------------------------------------------------------------------------------------------------
# What was seen to the loader that programs start with: a machine's, or that which goes along.


def loading_of(survey: Survey, programs: Sequence[str]) -> Loading:
    """Return how programs of the pack find a loader that knows what they need.

    The loader that they name goes along. Raises `StackproofError` (UNSUPPORTED) for a program of a
    newer C library than that of this machine.
    """
    names = [survey.elves[path].interpreter for path in programs if path in survey.elves]
    interpreter = next(filter(is_loader, names), "")
    if interpreter:
        survey.c_library.setdefault(posixpath.basename(interpreter), interpreter)
    nodes = [need.name for elf in survey.elves.values() for need in elf.version_needs]
    for path in (*survey.libraries.values(), *survey.spare.values()):
        nodes += [need.name for need in runpath.read(path).version_needs]
    floor = floor_of(nodes)
    own = own_floor(survey)
    if floor > own:
        asks = next(
            path
            for path, elf in survey.elves.items()
            if floor_of(need.name for need in elf.version_needs) == floor
        )
        raise fail(
            Reason.UNSUPPORTED,
            f"`{asks}` needs glibc 2.{floor}, and this machine has 2.{own}, which goes along",
            where=Location(file=asks),
            hint="make the pack on a machine with that glibc, or one that is newer",
        )
    return Loading(
        floor=floor,
        interpreter=interpreter,
        own=f"{LOADER}/{posixpath.basename(interpreter)}",
        libraries=tuple(
            dict.fromkeys(
                (
                    f"/lib/{survey.machine.architecture}-linux-gnu/libc.so.6",
                    f"/usr/lib/{survey.machine.architecture}-linux-gnu/libc.so.6",
                    "/lib64/libc.so.6",
                    "/usr/lib64/libc.so.6",
                    "/usr/lib/libc.so.6",
                )
            )
        ),
        spare=_spare_of(survey),
    )


def _spare_of(survey: Survey) -> dict[str, tuple[str, ...]]:
    """Return libraries for RDMA with the versions that programs of the pack need of each.

    Only those that this machine's library defines: what an image asks for is any text.
    """
    spare = {}
    for name, path in sorted(survey.spare.items()):
        have = {node.name for node in runpath.read(path).version_definitions}
        spare[name] = tuple(sorted(have & survey.asked.get(name, set())))
    return spare


def own_floor(survey: Survey) -> int:
    """Return the x of the newest GLIBC_2.x of the C library that goes along, 0 without one."""
    library = survey.c_library.get("libc.so.6")
    if library is None:
        return 0
    return floor_of(node.name for node in runpath.read(library).version_definitions)


def move_programs(pack: Path, programs: Iterable[str]) -> None:
    """Put programs, paths in the pack, to where their entry points expect them.

    What else lies in their folder is linked there: programs look beside themselves. Raises
    `StackproofError` (UNSUPPORTED) where the tree has something at such a place.
    """
    programs = tuple(programs)
    _check_free(pack, programs)
    folders: dict[str, None] = {}
    for path in programs:
        target = pack / program_place(path)
        target.parent.mkdir(mode=0o755, exist_ok=True)
        (pack / path).rename(target)
        folders[posixpath.dirname(path)] = None
    for folder in folders:
        beside = pack / posixpath.dirname(program_place(f"{folder}/x"))
        for name in sorted(os.listdir(pack / folder)):
            if not os.path.lexists(beside / name):
                os.symlink(f"../{posixpath.basename(folder)}/{name}", beside / name)


def _check_free(pack: Path, programs: Sequence[str]) -> None:
    """Raise `StackproofError` (UNSUPPORTED) for places of programs that the tree has already."""
    problems = []
    for path in programs:
        target = pack / program_place(path)
        taken = target.parent if target.parent.is_symlink() else target
        if os.path.lexists(taken):
            problems.append(taken_already(os.path.relpath(taken, pack), "programs are moved"))
    if problems:
        raise StackproofError(*dict.fromkeys(problems))


def taken_already(place: str, why: str) -> Problem:
    """Return the problem of a name in the tree which the pack needs itself."""
    return Problem(
        reason=Reason.UNSUPPORTED,
        message=f"`{place}` is in the image, and is where {why} to",
        where=Location(file=place),
        hint="build the stack without it",
    )


def seal_tree(
    pack: Path,
    elves: Mapping[str, ElfFile],
    folders: Mapping[str, Sequence[str]],
    always: Sequence[str],
    moved: Mapping[str, str],
) -> Iterator[Moved]:
    """Give each file of the tree its run path, and yield what was replaced.

    Paths are those in the pack, before programs were moved (`moved`); `always` are folders that
    files are opened from by name. What needs nothing but the C library stays as it is.
    """
    for path, elf in elves.items():
        place = moved.get(path, path)
        old = elf.rpath if elf.runpath is None else elf.runpath
        needs = [name for name in elf.needed if not C_LIBRARY.fullmatch(name)]
        opens = any(one.name in {"dlopen", "dlmopen"} for one in elf.imports)
        if not needs and not opens and not old:
            continue
        new = run_path(place, (*folders.get(path, ()), *always, LIBRARIES))
        with content_of(pack / place) as content:
            offset = content.find(old.encode() + b"\0") if old is not None else -1
        runpath.seal(str(pack / place), new)
        if old is not None:
            yield Moved(file=place, offset=offset, kind=TextKind.RUN_PATH, text=old, done=new)


def carry(pack: Path, folder: str, libraries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Copy libraries of this machine, by the names that are asked for; yield path and SHA-256."""
    if libraries:
        (pack / folder).mkdir(mode=0o755, parents=True)
    for name, source in sorted(libraries.items()):
        target = pack / folder / name
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            raise files.translate(error, target) from error
        target.chmod(0o755)
        yield f"{folder}/{name}", files.sha256(target)
        if folder != LOADER:
            runpath.seal(str(target), run_path(f"{folder}/{name}", (folder, LIBRARIES)))


def rewrite_texts(pack: Path, prefix: str) -> Iterator[Moved]:
    """Let texts that can find the place by their own do so, and yield what was replaced."""
    for path in regular_files(pack / STACK):
        place = os.path.relpath(path, pack)
        if not place.endswith((".pc", ".cmake")) or path.stat().st_size > limits.DOCUMENT.bytes:
            continue
        content = path.read_bytes()
        offset = content.find(prefix.encode())
        if offset < 0:
            continue
        top = posixpath.relpath(STACK, posixpath.dirname(place))
        found = prefixes.rewritten(place, content, prefix, top)
        if found is not None:
            path.write_bytes(found[0])
            done = "by the file's own place"
            yield Moved(file=place, offset=offset, kind=found[1], text=prefix, done=done)


def left(
    pack: Path, prefix: str, set_for: Mapping[str, str], scripts: Collection[str]
) -> Iterator[Moved]:
    """Yield every text of the pack that still names the old place, with the reason where one is.

    `scripts` are those whose interpreter an entry point starts.
    """
    for path in regular_files(pack / STACK):
        place = os.path.relpath(path, pack)
        with content_of(path) as content:
            found = tuple(prefixes.sightings(place, content, prefix.encode()))
        for seen in found:
            if place in scripts and seen.text.startswith(b"#!"):
                yield seen.moved(TextKind.SHEBANG, "its entry point starts the interpreter")
            else:
                yield prefixes.explain(seen, prefix, set_for)
    for folder in (LIBRARIES, LOADER):
        for path in regular_files(pack / folder):
            yield from prefixes.machine_paths(os.path.relpath(path, pack), path.read_bytes())


@contextlib.contextmanager
def content_of(path: Path) -> Iterator[bytes]:
    """Give what is in a file, mapped: an image can hold files that are larger than the memory."""
    with path.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield cast("bytes", content)  # it is searched and sliced alike


def regular_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, in order."""
    for inner, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(inner, name)
            if path.is_file() and not path.is_symlink():
                yield path
