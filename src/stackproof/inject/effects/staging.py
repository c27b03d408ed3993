"""Injections on disk: staged beside what is there, switched by one rename, undone by one.

A place (`…/OpenMPI/system`) is a link to `.stackproof/<name>.<number>` beside it. A new version is
filled in a folder of its own and gets its name when it is whole; the switch replaces the link. What
was at the place before, another link or a folder, is written into the version's record, so that
undoing puts exactly that back. Versions that nothing points to stay, as ranks may have them open.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from stackproof.core import limits, noun
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import files, run
from stackproof.core.errors import Location, Reason, fail
from stackproof.inject.eessi import Filling
from stackproof.inject.wrapper import Wrapping
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView

KEEP = ".stackproof"
"""The folder beside a place that holds its versions."""
_RECORD = "injection.json"
_LOCK_S = 10.0
_TRACE_TIMEOUT_S = 60.0
# renameat2(2), <linux/fs.h>
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_BACK = "what was there before is in place again"
_TRACED = re.compile(r"\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$")
_TRACED_PATH = re.compile(r"\s*(/.+) \(0x[0-9a-f]+\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """The record of one version: what it is made of, and what was at its place before.

    `before` is the text of a link, a folder beside the place that holds what was a folder there
    (`before_folder`), or empty for nothing. `sources` maps the copied files to their SHA-256.
    `hook` is the site's file of hooks, and `part` what this version needs in it under `name`.
    """

    SCHEMA: ClassVar[str] = "stackproof/injected/1"

    place: str
    prefix: str
    before: str = ""
    before_folder: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    hook: str = ""
    name: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A version that is whole and not yet in use: its folder and its record."""

    folder: str
    record: Injection


def real_place(text: str) -> str:
    """Return the place with the links of the folders above followed, and its own link not."""
    path = os.path.abspath(text)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


@contextlib.contextmanager
def locked(place: str) -> Iterator[None]:
    """Hold the only right to change what lies beside a place; leftovers of a stop are removed.

    Raises `StackproofError`: BUSY when another one holds it for long, NOT_PERMITTED.
    """
    keep = Path(place).parent / KEEP
    try:
        make_folder(keep)
    except OSError as error:
        raise files.translate(error, keep) from error
    busy = fail(
        Reason.BUSY,
        f"another stackproof changes `{os.path.dirname(place)}`",
        hint="wait for it to end, then try again",
    )
    with files.locked(keep / "lock", seconds=_LOCK_S, mode=0o644, busy=busy):
        for entry in sorted(keep.iterdir()):
            # A version has a number and is a folder; a link is one that never came to be used.
            if entry.is_symlink() or entry.name.startswith("staging."):
                files.remove(entry)
        yield


def make_folder(folder: Path) -> None:
    """Make a folder and those above that are missing: jobs of all users enter it, any umask."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def staging_folder(place: str) -> str:
    """Return an empty folder on the file system of a place; the lock must be held."""
    parent, name = os.path.split(place)
    folder = os.path.join(parent, KEEP, f"staging.{name}")
    files.remove(folder)
    try:
        os.mkdir(folder)
    except OSError as error:
        raise files.translate(error, folder) from error
    return folder


def fill(filling: Filling, folder: str, view: RootView) -> Mapping[str, str]:
    """Copy the libraries of a filling into a folder, and return the digests of their sources.

    The copies are read again: names, needs and exports must be those of the source, and the only
    search path a DT_RPATH. Raises `StackproofError`: TOOL_MISSING without patchelf, BUILD_FAILED
    when it damaged a copy, and what files raise.
    """
    sources = {}
    for target, path in filling.trees.items():
        copy_tree(_real(view, path), os.path.join(folder, target))
        for inside, _, names in os.walk(os.path.join(folder, target)):
            for name in names:
                copied = os.path.join(inside, name)
                sources[os.path.relpath(copied, folder)] = files.sha256(copied)
    for one in filling.libraries:
        source, target = _real(view, one.source), os.path.join(folder, one.target)
        sources[one.target] = files.sha256(source)
        _copy_with_rpath(source, target, one.rpath)
        if one.asks:
            runpath.ask_for(target, one.asks)
    for path, text in filling.links.items():
        _link(os.path.join(folder, path), text)
    return sources


def _real(view: RootView, path: str) -> str:
    found = view.resolve(path)
    return found[1] if found else path


def copy_tree(source: str, target: str) -> None:
    """Copy a folder with its links, where there is one; raises what files raise."""
    if os.path.isdir(source):
        try:
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        except OSError as error:
            raise files.translate(error, target) from error


def wrap(wrapping: Wrapping, folder: str) -> None:
    """Write the script, the links and the copy that start a program; raises like `fill`."""
    for path, text in wrapping.links.items():
        target = os.path.join(folder, path)
        if not os.path.islink(target):
            _link(target, text)
    if wrapping.copy:
        _copy_with_rpath(wrapping.program, os.path.join(folder, wrapping.copy), wrapping.rpath)
    files.write(os.path.join(folder, wrapping.script), wrapping.text, mode=0o755)


def _link(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(text, path)
    except OSError as error:
        raise files.translate(error, path) from error


def _copy_with_rpath(source: str, target: str, rpath: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
        os.chmod(target, 0o755)  # noqa: S103 - jobs of all users load it
    except OSError as error:
        raise files.translate(error, target) from error
    runpath.seal(target, rpath)


read = runpath.read


def current(place: str) -> Injection | None:
    """Return the record of the version that a place points to, None when it is none of ours."""
    try:
        text = os.readlink(place)
    except OSError:
        return None
    if os.path.dirname(text) != KEEP:
        return None
    path = os.path.join(os.path.dirname(place), text, _RECORD)
    content = files.read_bounded(path, limits.LOCK)
    return noun.from_json(Injection, content, file=path)


def commit(folder: str, record: Injection) -> Staged:
    """Give a filled folder its number, and write what is at its place now into its record."""
    place = record.place
    name, number = os.path.basename(place), free_number(place)
    before, is_folder = "", False
    if os.path.islink(place):
        before = os.readlink(place)
    elif os.path.lexists(place):
        before, is_folder = os.path.join(KEEP, f"{name}.found.{number}"), True
    record = replace(record, before=before, before_folder=is_folder)
    files.write(os.path.join(folder, _RECORD), noun.to_json(record))
    for inside, _, _ in os.walk(folder):
        os.chmod(inside, 0o755)  # noqa: S103 - jobs of all users enter it
    return Staged(folder=name_version(folder, place, number), record=record)


def free_number(place: str) -> int:
    """Return the number of the next version of a place; the lock must be held."""
    parent, name = os.path.split(place)
    numbers = [
        int(entry.rpartition(".")[2])
        for entry in os.listdir(os.path.join(parent, KEEP))
        if re.fullmatch(re.escape(name) + r"\.(?:found\.)?[0-9]+", entry)
    ]
    return max(numbers, default=0) + 1


def name_version(folder: str, place: str, number: int) -> str:
    """Let a filled folder be a version of a place, and return its path."""
    parent, name = os.path.split(place)
    target = os.path.join(parent, KEEP, f"{name}.{number}")
    try:
        os.rename(folder, target)
    except OSError as error:
        raise files.translate(error, target) from error
    return target


def switch(staged: Staged) -> None:
    """Let a place point to a version, by one rename.

    Raises `StackproofError`: UNSUPPORTED where a folder is in the way and the file system cannot
    exchange two names, and what files raise.
    """
    place = staged.record.place
    text = os.path.join(KEEP, os.path.basename(staged.folder))
    if staged.record.before_folder:
        beside = os.path.join(os.path.dirname(place), staged.record.before)
        _link(beside, text)
        _exchange(beside, place)
    else:
        point(place, text)


def undo(place: str) -> Injection:
    """Put back what was at a place before its version, and return that version's record.

    Raises `StackproofError` (INVALID_VALUE) when no version of ours is there.
    """
    record = current(place)
    if record is None:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{place}` was not made by `stackproof inject apply`",
            where=Location(file=place),
            hint="name the folder that `inject apply` printed",
        )
    before = os.path.join(os.path.dirname(place), record.before)
    ours = os.path.dirname(record.before) == KEEP
    if ours and not os.path.exists(before):
        raise fail(
            Reason.FILE_MISSING,
            f"`{before}`, which was there before, is gone",
            where=Location(file=place),
            hint=f"`rm {place}` leaves programs with their own MPI",
        )
    try:
        if record.before_folder:
            beside = os.path.join(os.path.dirname(place), record.before)
            _exchange(beside, place)
            os.unlink(beside)
        elif record.before:
            point(place, record.before)
        else:
            os.unlink(place)
    except OSError as error:
        raise files.translate(error, place) from error
    return record


def point(place: str, text: str) -> None:
    """Let a place be a link with that text, by one rename; what is there is a link or nothing."""
    parent, name = os.path.split(place)
    temporary = os.path.join(parent, KEEP, f"staging.link.{name}")
    files.remove(temporary)
    _link(temporary, text)
    try:
        os.replace(temporary, place)
    except OSError as error:
        raise files.translate(error, place) from error


def _exchange(one: str, other: str) -> None:
    """Exchange two names in one step: nobody sees a moment without either."""
    library = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(one), os.fsencode(other))
    if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS}:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{other}` is a folder, and this file system cannot exchange it for a link",
            where=Location(file=other),
            hint="rename it, and make a link of its old name to it, while no job runs",
        )
    raise files.translate(OSError(number, os.strerror(number)), other)


def with_rollback(staged: Staged, verify: Callable[[], None]) -> None:
    """Switch to a version, verify, and go back when that raises."""
    switch(staged)
    try:
        verify()
    except BaseException:
        undo(staged.record.place)
        files.remove(staged.folder)
        raise


def trace(
    interpreter: str, program: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the file that a program's own loader takes for each name, without running it.

    What is asked for by its path, as a preload is, has the path for its name.
    Raises `StackproofError` (INJECTION_FAILS) when the loader ends with an error or misses a file,
    TOOL_MISSING when there is no such loader.
    """
    argv = (interpreter, "--list", program)
    env = EnvPatch(set=dict(environment or {}))
    command = Command(argv=argv, env=env, timeout_s=_TRACE_TIMEOUT_S)
    done = run.run(command)
    text = done.stdout.decode(errors="replace")
    found = {}
    for line in text.splitlines():
        if match := _TRACED.fullmatch(line):
            found[match.group(1)] = match.group(2)
        elif match := _TRACED_PATH.fullmatch(line):
            found[match.group(1)] = match.group(1)
    lost = [name for name, path in found.items() if path == "not found"]
    if lost:
        raise fail(
            Reason.INJECTION_FAILS,
            f"the loader does not find {', '.join(f'`{name}`' for name in lost)}",
            where=Location(file=program),
            hint=_BACK,
        )
    if done.returncode != 0 or done.timed_out:
        raise run.failure(command, done, log=None, reason=Reason.INJECTION_FAILS)
    return found


def verify_trace(
    found: Mapping[str, str], names: tuple[str, ...], place: str, program: str
) -> None:
    """Raise `StackproofError` (INJECTION_FAILS) unless each name is a file below a place."""
    top = os.path.realpath(place) + "/"
    for name in names:
        path = found.get(name, "")
        if not os.path.realpath(path).startswith(top):
            raise fail(
                Reason.INJECTION_FAILS,
                f"the loader takes `{path or 'nothing'}` for `{name}`",
                where=Location(file=program),
                hint=f"it should come from `{place}`; {_BACK}",
            )
