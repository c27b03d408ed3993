"""Versions of a place, beside it: filled where nobody else can enter, and switched to by a link.

A place is a link to `.stackproof/NAME.NUMBER` in its folder. That folder of versions is this user's
or root's, or nothing is done. It is opened once, and all that follows goes through its descriptor:
others may write to the folder that it lies in.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from stackproof.core.effects import files, outputs
from stackproof.core.effects.foreign import folder as foreign_folder
from stackproof.core.effects.foreign.folder import OpenFolder
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace

KEEP = ".stackproof"
"""The folder beside a place that holds its versions."""
_LOCK_S = 10.0
_ALONE_S = 1.0
_RENAME_EXCHANGE = 2  # renameat2(2), <linux/fs.h>
_STAGING, _TREE = "staging.", "tree"
_FOUND = re.compile(r".+\.found\.[0-9]+")


def real_place(text: str) -> str:
    """Return the place with the links of the folders above followed, and its own link not.

    Raises `StackproofError` (NOT_PERMITTED) for a link that somebody else has made.
    """
    above, name = os.path.split(os.path.abspath(text))
    if name == KEEP:
        raise fail(
            Reason.USAGE,
            f"`{text}` is where versions of other places are kept",
            where=Location(file=text),
            hint="name another folder",
        )
    return os.path.join(foreign_folder.follow_links(above), name)


class Keep(Value):
    """The folder with the versions of a place, `folder`, and the one that the place lies in.

    Both are open: what is done goes there, whoever renames them meanwhile.
    """

    place: str
    above: OpenFolder
    folder: OpenFolder

    @property
    def name(self) -> str:
        """Return the name of the place."""
        return os.path.basename(self.place)

    def path(self, name: str) -> str:
        """Return a path to something in the folder, for this process and the programs it starts."""
        return os.path.join(_way(self.folder), name)

    def version(self) -> str:
        """Return the name of the version that the place points to, empty where that is none.

        Raises `StackproofError` (NOT_PERMITTED) for a version of somebody else.
        """
        try:
            text = os.readlink(self.name, dir_fd=self.above.descriptor)
        except OSError:
            return ""
        folder, name = os.path.split(text)
        if folder != KEEP or name in {"", ".", ".."} or self.folder.state(name) is None:
            return ""
        self.folder.open_folder(name).close()
        return name


@contextlib.contextmanager
def locked(place: str) -> Iterator[Keep]:
    """Hold the only right to change what lies beside a place; leftovers of a stop are removed.

    Raises `StackproofError`: BUSY when another one holds it for long, NOT_PERMITTED where the
    folder of versions is somebody else's, or a link.
    """
    folder = Path(place).parent
    busy = fail(
        Reason.BUSY,
        f"another stackproof changes `{folder}`",
        hint="wait for it to end, then try again",
    )
    with contextlib.ExitStack() as held:
        # Jobs of all users enter these folders, whatever the umask.
        opened = held.enter_context(
            foreign_folder.open_folder(folder, make=0o755, any_owner=True, exact=True)
        )
        shared = foreign_folder.is_shared(folder) and not _is_for_root(opened)
        above = OpenFolder(path=opened.path, descriptor=opened.descriptor, shared=shared)
        inside = held.enter_context(above.open_folder(KEEP, make=0o755, exact=True))
        held.enter_context(inside.locked("lock", seconds=_LOCK_S, mode=0o600, busy=busy))
        for name in inside.names():
            # What only `staging`, `point` and `switch` make; a link never came to be used.
            if name.startswith(_STAGING) or (_FOUND.fullmatch(name) and _is_link(inside, name)):
                inside.remove(name)
        yield Keep(place=place, above=above, folder=inside)


def _is_for_root(folder: OpenFolder) -> bool:
    """Return true for root: what `STACKPROOF_SHARED` says may be another user's word, by sudo.

    Raises `StackproofError` (NOT_PERMITTED) for a folder that others may write to or exchange.
    """
    if os.geteuid() != outputs.ROOT:
        return False
    why = foreign_folder.fault(os.fstat(folder.descriptor))
    for above in Path(os.readlink(f"/proc/self/fd/{folder.descriptor}")).parents:
        if not outputs.keeps_names(os.stat(above)):
            why = why or f"lies in `{above}`, where others may exchange it"
    if why:
        hint = f"as root, {foreign_folder.SHARED} counts only for folders of root: unset it"
        raise foreign_folder.refused(folder.path, why, hint)
    return True


def _is_link(folder: OpenFolder, name: str) -> bool:
    state = folder.state(name)
    return state is not None and stat.S_ISLNK(state.st_mode)


@contextlib.contextmanager
def staging(keep: Keep) -> Iterator[str]:
    """Give an empty folder for the next version, which nobody else can enter; it does not stay.

    The lock must be held. `name_version` makes a version of it.
    """
    name = f"{_STAGING}{keep.name}"
    try:
        keep.folder.make_folder(name, 0o700).close()
        with _named(keep.folder):
            path = os.path.join(keep.path(name), _TREE)
            _make_private(path)
            yield path
    finally:
        keep.folder.remove(name)


@contextlib.contextmanager
def beside(output: str, what: str) -> Iterator[str]:
    """Give an empty folder on the file system of an output, which is gone afterwards.

    Nobody else can enter it; others may rename it, which changes nothing. It is locked as long as
    it is in use: what a killed command of this user left is deleted. Raises `StackproofError`.
    """
    start = f".stackproof-{what}-"
    name = f"{start}{os.urandom(6).hex()}"
    above = Path(output).parent
    with contextlib.ExitStack() as held:
        opened = held.enter_context(foreign_folder.open_folder(above, any_owner=True))
        with _alone(opened) as alone:
            for left in opened.names() if alone else ():
                if left.startswith(start):
                    _remove_left(opened, left)
            folder = opened.make_folder(name, 0o700)
            _lock(folder.descriptor)
        held.callback(_remove_empty, opened, name)
        held.enter_context(folder)
        held.callback(_clear, folder)
        with _named(folder):
            yield _way(folder)


@contextlib.contextmanager
def _alone(folder: OpenFolder) -> Iterator[bool]:
    """Hold a folder itself, so that no other one of these commands is between making and locking.

    It gives false where anybody holds it for long.
    """
    end = time.monotonic() + _ALONE_S
    while not (held := _lock(folder.descriptor)) and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield held
    finally:
        if held:
            fcntl.flock(folder.descriptor, fcntl.LOCK_UN)


def _lock(descriptor: int) -> bool:
    """Lock an open folder; return false where somebody else has, or its file system cannot."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_left(above: OpenFolder, name: str) -> None:
    """Delete a folder of this user's that no command is using; leave everything else."""
    state = above.state(name)
    if state is None or state.st_uid != os.geteuid() or not stat.S_ISDIR(state.st_mode):
        return
    with contextlib.suppress(StackproofError, OSError), above.open_folder(name) as folder:
        if _lock(folder.descriptor):
            _clear(folder)
            _remove_empty(above, name)


def _clear(folder: OpenFolder) -> None:
    for name in folder.names():
        folder.remove(name)


def _remove_empty(folder: OpenFolder, name: str) -> None:
    with contextlib.suppress(OSError):  # others have renamed it
        os.rmdir(name, dir_fd=folder.descriptor)


def _way(folder: OpenFolder) -> str:
    """Return a path to an open folder, which leads there whatever has its name."""
    return f"/proc/{os.getpid()}/fd/{folder.descriptor}"


@contextlib.contextmanager
def _named(folder: OpenFolder) -> Iterator[None]:
    """Let errors name an open folder by its own path."""

    def named(text: str) -> str:
        return text.replace(_way(folder), str(folder.path))

    try:
        yield
    except StackproofError as error:
        raise StackproofError(
            *(
                replace(
                    one,
                    message=named(one.message),
                    hint=one.hint and named(one.hint),
                    where=one.where and replace(one.where, file=named(one.where.file)),
                    detail=one.detail and named(one.detail),
                )
                for one in error.problems
            )
        ) from error
    except OSError as error:
        raise files.translate(error, folder.path) from error


def _make_private(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        raise files.translate(error, path) from error


def normalise(folder: str | os.PathLike[str]) -> None:
    """Give every file and folder of a tree one of two modes, whatever the umask; none gives rights.

    Links are left alone.
    """
    for inner, _, names in os.walk(folder):
        os.chmod(inner, 0o755)  # noqa: S103 - jobs of all users enter it
        for name in names:
            path = os.path.join(inner, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.stat(path).st_mode & 0o111 else 0o644)


def free_number(keep: Keep) -> int:
    """Return the number of the next version of a place; the lock must be held."""
    numbers = [
        int(entry.rpartition(".")[2])
        for entry in keep.folder.names()
        if re.fullmatch(re.escape(keep.name) + r"\.(?:found\.)?[0-9]+", entry)
    ]
    return max(numbers, default=0) + 1


def name_version(keep: Keep, number: int) -> str:
    """Let the folder of `staging` be a version of a place, and return its name."""
    name = f"{keep.name}.{number}"
    with keep.folder.open_folder(f"{_STAGING}{keep.name}") as staged:
        staged.rename(_TREE, name, keep.folder)
    return name


def current(place: str) -> str:
    """Return the folder of the version that a place points to, empty where it points to none.

    Whoever acts on it asks `Keep.version`, with the lock held.
    """
    try:
        text = os.readlink(place)
    except OSError:
        return ""
    return os.path.join(os.path.dirname(place), text) if os.path.dirname(text) == KEEP else ""


class Before(Value):
    """The former content of a place: the text of a link, or empty for nothing.

    `is_folder` for a folder, which the text names beside the place.
    """

    text: str = ""
    is_folder: bool = False


def look_before(keep: Keep, number: int) -> Before:
    """Return the content of a place before the version of a number; the lock must be held."""
    now = keep.above.state(keep.name)
    if now is None:
        return Before()
    if stat.S_ISLNK(now.st_mode):
        return Before(text=os.readlink(keep.name, dir_fd=keep.above.descriptor))
    return Before(text=os.path.join(KEEP, f"{keep.name}.found.{number}"), is_folder=True)


def switch(keep: Keep, version: str, before: Before) -> None:
    """Let a place point to a version, by one rename.

    Raises `StackproofError`: UNSUPPORTED where a folder is in the way and the file system cannot
    exchange two names, and what files raise.
    """
    text = os.path.join(KEEP, version)
    if before.is_folder:
        name = os.path.basename(before.text)
        _link(keep, name, text)
        _exchange(keep, name)
    else:
        _point(keep, text)


def go_back(keep: Keep, before: Before, hint: str) -> None:
    """Let be at a place what was there before, which must be there and believed.

    FILE_MISSING has the hint; NOT_PERMITTED is raised for a version of somebody else.
    """
    folder, name = os.path.split(before.text)
    path = os.path.join(os.path.dirname(keep.place), before.text)
    if before.text and not os.path.lexists(path):
        raise fail(
            Reason.FILE_MISSING,
            f"`{path}`, which was there before, is gone",
            where=Location(file=keep.place),
            hint=hint,
        )
    if folder == KEEP and ".found." not in name:  # what was found is whoever's it was
        keep.folder.open_folder(name).close()
    if before.is_folder:
        _exchange(keep, name)
        keep.folder.remove(name)
    elif before.text:
        _point(keep, before.text)
    else:
        _unlink(keep)


def _unlink(keep: Keep) -> None:
    """Let nothing be at a place, which is a link."""
    try:
        os.unlink(keep.name, dir_fd=keep.above.descriptor)
    except OSError as error:
        raise files.translate(error, keep.place) from error


def _point(keep: Keep, text: str) -> None:
    """Let a place be a link with that text, by one rename; what is there is a link or nothing."""
    temporary = f"{_STAGING}link.{keep.name}"
    keep.folder.remove(temporary)
    _link(keep, temporary, text)
    keep.folder.rename(temporary, keep.name, keep.above)


def _link(keep: Keep, name: str, text: str) -> None:
    """Make a link in the folder of versions; raises what files raise."""
    try:
        os.symlink(text, name, dir_fd=keep.folder.descriptor)
    except OSError as error:
        raise files.translate(error, os.path.join(os.path.dirname(keep.place), KEEP)) from error


def _exchange(keep: Keep, name: str) -> None:
    """Exchange the place and a name of the folder: nobody sees a moment without either."""
    library = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(name), os.fsencode(keep.name))
    inside, above = keep.folder.descriptor, keep.above.descriptor
    if library.renameat2(inside, names[0], above, names[1], _RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS}:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{keep.place}` is a folder, and this file system cannot exchange it for a link",
            where=Location(file=keep.place),
            hint="rename it, and make a link of its old name to it, while no job runs",
        )
    raise files.translate(OSError(number, os.strerror(number)), keep.place)
