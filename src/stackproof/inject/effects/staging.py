"""Injections on disk: staged beside what is there, switched by one rename, undone by one.

A place (`…/OpenMPI/system`) is a link to `.stackproof/<name>.<number>` beside it. A new version is
filled in a folder that only this user can enter, and gets its name when it is whole and gives no
rights; the switch replaces the link. What was at the place before, another link or a folder, is
written into the version's record, so that undoing puts exactly that back. Versions that nothing
points to stay, as ranks may have them open.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.inject.delivery import InjectionDelivery
from stackproof.inject.effects import named, versions
from stackproof.inject.effects.versions import Before, Keep
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure, Machine, load_program

_RECORD = "injection.json"
_BACK = "what was there before is in place again"


class Injection(Value):
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


class Staged(Value):
    """A version that is whole and not yet in use: its folder's name and its record."""

    folder: str
    record: Injection


def fill(delivery: InjectionDelivery, folder: str, view: RootView) -> Mapping[str, str]:
    """Fill a folder, and return the digests of what was copied, by where to.

    The copies are read again: but for names that were asked for, their names, needs and exports
    must be those of the source, and the only search path a DT_RPATH. Raises `StackproofError`:
    INJECTION_FAILS for what would lie elsewhere, TOOL_MISSING without patchelf, BUILD_FAILED when
    it damaged a copy, and what files raise.
    """
    copies = (one.target for one in delivery.copies)
    for target in (*delivery.trees, *copies, *delivery.links, *delivery.scripts):
        _check_inside(target)
    sources = {}
    for target, path in delivery.trees.items():
        copy_tree(real_path(view, path), os.path.join(folder, target))
        for inside, _, names in os.walk(os.path.join(folder, target)):
            for name in names:
                copied = os.path.join(inside, name)
                sources[os.path.relpath(copied, folder)] = files.sha256(copied)
    for one in delivery.copies:
        source, target = real_path(view, one.source), os.path.join(folder, one.target)
        sources[one.target] = files.sha256(source)
        copy_library(source, target)
        runpath.seal(target, one.rpath, soname=one.soname, needed=one.needed, asks=one.asks)
    for path, text in delivery.links.items():
        _link(os.path.join(folder, path), text)
    for path, text in delivery.scripts.items():
        files.write(os.path.join(folder, path), text, mode=0o755)
    return sources


def _check_inside(target: str) -> None:
    """Raise `StackproofError` (INJECTION_FAILS) for a path that may lead out of its folder."""
    if {"", ".", ".."} & {*target.split("/")}:
        raise fail(
            Reason.INJECTION_FAILS,
            f"a file would be copied to `{target}`, which may lead out of its folder",
            hint="the SONAME of a library has a `/`: look at it with `readelf -d`",
        )


def real_path(view: RootView, path: str) -> str:
    """Return the path on this machine for a path of a view, or the same one where there is none."""
    resolved = view.resolve(path)
    return resolved[1] if resolved else path


def copy_tree(source: str, target: str) -> None:
    """Copy a folder with its links, where there is one; raises what files raise.

    Files get contents, and the right to be run where they had it: no other bits, no attributes.
    """
    if os.path.isdir(source):
        try:
            shutil.copytree(
                source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_plain
            )
        except OSError as error:
            raise files.translate(error, target) from error


def _copy_plain(source: str, target: str) -> None:
    """Copy a regular file or a link as `shutil.copytree` asks for it; raises `OSError`."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream, open(target, "xb") as copied:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "no regular file", source)
        shutil.copyfileobj(stream, copied)
        os.fchmod(copied.fileno(), 0o755 if state.st_mode & 0o111 else 0o644)


def _link(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Programs of one folder share links; one of a tree that was copied is somebody else's.
        if not (os.path.islink(path) and os.readlink(path) == text):
            os.symlink(text, path)
    except OSError as error:
        raise files.translate(error, path) from error


def copy_library(source: str, target: str) -> None:
    """Copy a library or a program for everybody, into folders that are made; raises as files do."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
        os.chmod(target, 0o755)  # noqa: S103 - jobs of all users load it
    except OSError as error:
        raise files.translate(error, target) from error


def current(place: str) -> Injection | None:
    """Return the record of the version that a place points to, None when it is none of ours.

    Whoever acts on it asks `recorded`, with the lock held.
    """
    folder = versions.current(place)
    return _record_of(folder) if folder else None


def recorded(keep: Keep) -> Injection | None:
    """Return the record of the version that the place points to, None when it is none of ours."""
    version = keep.version()
    return _record_of(keep.path(version)) if version else None


def _record_of(folder: str) -> Injection:
    path = os.path.join(folder, _RECORD)
    return noun.from_json(Injection, files.read_bounded(path, limits.LOCK), file=path)


def commit(keep: Keep, folder: str, record: Injection) -> Staged:
    """Give a filled folder its number, and write what is at its place now into its record."""
    number = versions.free_number(keep)
    before = versions.look_before(keep, number)
    record = replace(record, before=before.text, before_folder=before.is_folder)
    files.write(os.path.join(folder, _RECORD), noun.to_json(record))
    versions.normalise(folder)
    return Staged(folder=versions.name_version(keep, number), record=record)


def undo(keep: Keep) -> Injection:
    """Put back what was at a place before its version, and return that version's record.

    Raises `StackproofError` (INVALID_VALUE) when no version of ours is there.
    """
    record = recorded(keep)
    if record is None:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{keep.place}` was not made by `stackproof inject apply`",
            where=Location(file=keep.place),
            hint="name the folder that `inject apply` printed",
        )
    hint = f"`rm {keep.place}` leaves programs with their own MPI"
    versions.go_back(keep, _before(record), hint)
    return record


def _before(record: Injection) -> Before:
    return Before(text=record.before, is_folder=record.before_folder)


def with_rollback(keep: Keep, staged: Staged, verify: Callable[[], None]) -> None:
    """Switch to a version, verify, and go back when that raises."""
    versions.switch(keep, staged.folder, _before(staged.record))
    try:
        verify()
    except BaseException:
        undo(keep)
        keep.folder.remove(staged.folder)
        raise


def load_again(
    program: str, machine: Machine, environment: Mapping[str, str] | None = None
) -> Closure:
    """Return the libraries that a program loads now, as they are read.

    Nothing of it is started, nor its loader: a program may name any file as that. Raises
    `StackproofError` (INJECTION_FAILS) where a file is missing or is no library.
    """
    setting = named.setting_of(environment or {})
    closure = load_program(RootView(), program, machine=machine, setting=setting)
    lost = [f"`{edge.name}`" for edge in closure.missing]
    lost += [f"`{one.path}`, as it {one.message}" for one in closure.unreadable]
    if lost:
        raise fail(
            Reason.INJECTION_FAILS,
            f"the loader does not find {', '.join(lost)}",
            where=Location(file=program),
            hint=_BACK,
        )
    return closure


def verify_taken(closure: Closure, names: tuple[str, ...], place: str) -> None:
    """Raise `StackproofError` (INJECTION_FAILS) unless each name is a file below a place."""
    top = os.path.realpath(place) + "/"
    for name in names:
        path = closure.taken.get(name, "")
        if not os.path.realpath(path).startswith(top):
            raise fail(
                Reason.INJECTION_FAILS,
                f"the loader takes `{path or 'nothing'}` for `{name}`",
                where=Location(file=closure.program.path),
                hint=f"it should come from `{place}`; {_BACK}",
            )
