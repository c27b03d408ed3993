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
import posixpath
import shlex
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.inject.eessi import Filling
from stackproof.inject.effects import named, versions
from stackproof.inject.effects.versions import Before, Keep
from stackproof.inject.model import Judgement
from stackproof.inject.ways import ALIASES
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure, Machine, load_program

# --------------------------------------------------------------------------------------------------
# A judgement to the files that start a program with its replacement: script, links, a copy.


class Wrapping(Value):
    """What a folder holds to start one program; paths are below that folder.

    `links` maps a path to the text of the link. `copy` is where a copy of the program goes when no
    variable reaches it, with `rpath` as its DT_RPATH; empty otherwise. `environment` is what the
    script sets.
    """

    program: str
    script: str
    text: str
    links: Mapping[str, str] = field(default_factory=dict)
    copy: str = ""
    rpath: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_wrapping(judgement: Judgement, place: str, old_rpath: str) -> Wrapping:
    """Return what the folder `place` holds for a program; `old_rpath` is what the program has.

    Lists that are set already are kept behind ours: they come after the MPI, as before.
    """
    name = posixpath.basename(judgement.program)
    home = posixpath.join(place, "aliases")
    links = {
        posixpath.join("aliases", posixpath.basename(link)): target
        for link, target in judgement.way.links.items()
    }
    environment = {
        key: value.replace(ALIASES, home) for key, value in judgement.environment.items()
    }
    copy = rpath = ""
    if judgement.way.rpath:
        copy = f"libexec/{name}"
        # In the copy $ORIGIN would be another folder.
        origin = posixpath.dirname(judgement.program)
        old = old_rpath.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        folders = (word.replace(ALIASES, home) for word in judgement.way.rpath)
        rpath = ":".join((*folders, *((old,) if old else ())))
    program = posixpath.join(place, copy) if copy else judgement.program
    return Wrapping(
        program=judgement.program,
        script=f"bin/{name}",
        text=_script(judgement, environment, program),
        links=links,
        copy=copy,
        rpath=rpath,
        environment=environment,
    )


def _script(judgement: Judgement, environment: Mapping[str, str], program: str) -> str:
    about = f"# Starts {judgement.program} with {judgement.replacement}."
    lines = ["#!/bin/sh", "".join(c if c.isprintable() else "?" for c in about)]
    for name, value in environment.items():
        if name == "LD_PRELOAD":  # a tool that stands before the MPI stays before it
            before = f"${{{name}:+${name}:}}"
            lines.append(f"export {name}={before}{shlex.quote(value)}")
            continue
        more = f"${{{name}:+:${name}}}" if name == "LD_LIBRARY_PATH" else ""
        lines.append(f"export {name}={shlex.quote(value)}{more}")
    lines.append(f'exec {shlex.quote(program)} "$@"')
    return "\n".join(lines) + "\n"


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


def fill(filling: Filling, folder: str, view: RootView) -> Mapping[str, str]:
    """Copy the libraries of a filling into a folder, and return the digests of their sources.

    The copies are read again: names, needs and exports must be those of the source, and the only
    search path a DT_RPATH. Raises `StackproofError`: TOOL_MISSING without patchelf, BUILD_FAILED
    when it damaged a copy, and what files raise.
    """
    sources = {}
    for target, path in filling.trees.items():
        copy_tree(real_path(view, path), os.path.join(folder, target))
        for inside, _, names in os.walk(os.path.join(folder, target)):
            for name in names:
                copied = os.path.join(inside, name)
                sources[os.path.relpath(copied, folder)] = files.sha256(copied)
    for one in filling.libraries:
        source, target = real_path(view, one.source), os.path.join(folder, one.target)
        sources[one.target] = files.sha256(source)
        copy_library(source, target)
        runpath.seal(target, one.rpath)
        if one.asks:
            runpath.ask_for(target, one.asks)
    for path, text in filling.links.items():
        _link(os.path.join(folder, path), text)
    return sources


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


def wrap(wrapping: Wrapping, folder: str) -> None:
    """Write the script, the links and the copy that start a program; raises like `fill`."""
    for path, text in wrapping.links.items():
        target = os.path.join(folder, path)
        if not os.path.islink(target):
            _link(target, text)
    if wrapping.copy:
        copy = os.path.join(folder, wrapping.copy)
        copy_library(wrapping.program, copy)
        runpath.seal(copy, wrapping.rpath)
    files.write(os.path.join(folder, wrapping.script), wrapping.text, mode=0o755)


def _link(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
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
