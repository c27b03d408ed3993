"""Folders that others may write to, used by descriptor: what a name leads to is judged first.

A folder is opened once, its owner and mode are judged, and all that follows goes by its descriptor:
whoever exchanges a name above it, or a name in it for a link, changes nothing else. What belongs to
somebody else is refused, with the owner's name, unless `STACKPROOF_SHARED` lists the folder, or one
above it: that several users write there is then meant. Links are followed nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from stackproof.core.effects import files, outputs
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.limits import Limit

SHARED = "STACKPROOF_SHARED"
"""The variable that lists, with colons, folders in which several users write on purpose."""
_TRIES = 100  # at a path whose names others exchange meanwhile
_STEPS = 1000  # names on the way to a folder, those of links too
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO is not waited for
HINT = (
    f"where several users write on purpose, list the folder in {SHARED}; else remove what is not "
    "yours, or `chmod go-w`"
)

_LINK = "if what it leads to is meant, name that: `realpath` tells it"

LEFT = re.compile(r"\..+\.[0-9a-f]{12}")
"""The names of files that `OpenFolder.write` has not finished."""


def is_shared(path: Path) -> bool:
    """Return true where `STACKPROOF_SHARED` lists this folder, or one above it."""
    listed = [text for text in os.environ.get(SHARED, "").split(":") if os.path.isabs(text)]
    real = real_path(path) if listed else ""
    return any(Path(real).is_relative_to(real_path(text)) for text in listed)


def real_path(path: Path | str) -> str:
    """Return the path without links, also while others exchange names of it.

    `os.path.realpath` raises `OSError` (EINVAL) where a link becomes a folder between two of its
    looks. Raises `OSError` where that happens at every try.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)


def follow_links(path: Path | str) -> str:
    """Return the path without links, each followed as `open_folder` does; its end may be missing.

    Raises `StackproofError` (NOT_PERMITTED) for a link of somebody else.
    """
    folder, rest = Path(os.path.abspath(path)), ""
    while folder.parent != folder:
        with _translated(folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            descriptor = _walked(folder, None, HINT, end=True, leaf=os.O_PATH)
            real = os.readlink(f"/proc/self/fd/{descriptor}")
            os.close(descriptor)
            return os.path.normpath(os.path.join(real, rest))
        folder, rest = folder.parent, os.path.join(folder.name, rest)
    return os.path.normpath(os.path.join(folder, rest))


def umask() -> int:
    """Return the umask, which only setting it tells."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def owner_text(uid: int) -> str:
    """Return a user's name and number, as a message names an owner."""
    import pwd  # noqa: PLC0415 - only for a message

    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
    return f"`{name}` (uid {uid})"


def fault(state: os.stat_result, *, shared: bool = False, private: bool = False) -> str:
    """Return the fault of a file or folder in words; empty for one that is believed.

    Own or root's, and not writable for others; `private` asks for the user's own that nobody else
    may use. `shared`: several users write there on purpose, and only `private` asks more.
    """
    if private and not outputs.is_private(state):
        if state.st_uid == os.geteuid():
            return f"is not for you alone: its mode is {stat.S_IMODE(state.st_mode):04o}"
        return f"belongs to {owner_text(state.st_uid)}"
    if shared or private:
        return ""
    if outputs.is_foreign(state):
        return f"belongs to {owner_text(state.st_uid)}"
    if outputs.writable_by_others(state):
        return f"can be written to by others: its mode is {stat.S_IMODE(state.st_mode):04o}"
    return ""


def refused(path: os.PathLike[str] | str, why: str, hint: str = HINT) -> StackproofError:
    """Return the error of a file or folder that is not believed."""
    text = os.fspath(path)
    return fail(Reason.NOT_PERMITTED, f"`{text}` {why}", where=Location(file=text), hint=hint)


def _check_plain(folder: Path, *names: str) -> None:
    """Raise `StackproofError` (NOT_PERMITTED) for a name that leads out of its folder."""
    for name in names:
        if "/" in name or name in {"", ".", ".."}:
            raise refused(folder / name, "is no name in a folder")


class OpenFolder:
    """An open folder; all methods take plain names in it, and raise `StackproofError`.

    NOT_PERMITTED for what is not believed, and what `files.translate` makes of errors. `shared`:
    owners and modes of what lies in it are not looked at.
    """

    __slots__ = ("descriptor", "path", "shared")  # no `Value`: `run` makes one first

    def __init__(self, *, path: Path, descriptor: int, shared: bool = False) -> None:
        self.path, self.descriptor, self.shared = path, descriptor, shared

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of its descriptor, which is nothing after that."""
        os.close(self.descriptor)

    def state(self, name: str) -> os.stat_result | None:
        """Return the state of an entry itself, never of what it links to; None for no entry."""
        with _translated(self.path / name), contextlib.suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        return None

    def names(self) -> list[str]:
        """Return the names in it, in order."""
        with _translated(self.path):
            return sorted(os.listdir(self.descriptor))

    def make_folder(self, name: str, mode: int = 0o777) -> OpenFolder:
        """Make a folder that must not be there, less what the umask takes, and open it."""
        with _translated(self.path / name):
            os.mkdir(name, mode, dir_fd=self.descriptor)
        return self.open_folder(name)

    def open_folder(self, name: str, *, make: int | None = None, exact: bool = False) -> OpenFolder:
        """Open a folder in it, judged; with a mode in `make` it is made where it is not there.

        `exact`: with that mode whatever the umask.
        """
        with _translated(self.path / name):
            if make is not None:
                with contextlib.suppress(FileExistsError), _umask(exact=exact):
                    os.mkdir(name, make, dir_fd=self.descriptor)
        with _translated(self.path / name, link="is a link, which is not followed"):
            descriptor = os.open(name, _FOLDER, dir_fd=self.descriptor)
        if why := fault(os.fstat(descriptor), shared=self.shared):
            os.close(descriptor)
            raise refused(self.path / name, why)
        return OpenFolder(path=self.path / name, descriptor=descriptor, shared=self.shared)

    def set_mode(self, mode: int) -> None:
        """Give the folder itself a mode."""
        with _translated(self.path):
            os.fchmod(self.descriptor, mode)

    def create(self, name: str, mode: int = 0o666) -> int:
        """Create a file that must not be there; return its descriptor, to read and write."""
        with _translated(self.path / name):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
            return os.open(name, flags, mode, dir_fd=self.descriptor)

    def open_file(
        self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666, *, links: int = 1
    ) -> int:
        """Open a regular file that is believed; return its descriptor.

        `links`: how many names it may have; one that has more may be a file of somewhere else.
        """
        path = self.path / name
        with _translated(path, link="is a link, which is not followed"):
            descriptor = os.open(name, flags | _FILE, mode, dir_fd=self.descriptor)
        state = os.fstat(descriptor)
        why = "" if stat.S_ISREG(state.st_mode) else "is no regular file"
        why = why or fault(state, shared=self.shared)
        if not why and state.st_nlink > links:
            why = f"has {state.st_nlink} names, and may be a file of somewhere else"
        if why:
            os.close(descriptor)
            raise refused(path, why)
        return descriptor

    def read(self, name: str, limit: Limit) -> bytes:
        """Return the bytes of a file, as `files.read_bounded`; raises as `open_file` does."""
        with open(self.open_file(name), "rb") as stream:
            return files.read_bounded(self.path / name, limit, stream=stream)

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file, whole or not at all; an entry of that name is replaced."""
        with self.written(name, content, mode) as temporary:
            self.rename(temporary, name)

    @contextlib.contextmanager
    def written(self, name: str, content: bytes, mode: int) -> Iterator[str]:
        """Write a file under another name, which is given and is locked, and gone at the end."""
        temporary = f".{name}.{os.urandom(6).hex()}"
        descriptor = self.create(temporary, 0o600)
        try:
            with _translated(self.path / name), open(descriptor, "wb") as stream:
                with contextlib.suppress(OSError):  # without locks nobody can tell that it is used
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                stream.write(content)
                stream.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
                yield temporary
        finally:
            with contextlib.suppress(StackproofError):
                self.remove(temporary)

    def rename(self, name: str, new: str, to: OpenFolder | None = None) -> None:
        """Give an entry another name, here or in another folder; what has that name is replaced."""
        target = to or self
        _check_plain(self.path, name, new)
        with _translated(target.path / new):
            os.rename(name, new, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)

    def link(self, name: str, new: str) -> bool:
        """Give a file a second name; return false where that is taken. A link is not followed."""
        with _translated(self.path / new), contextlib.suppress(FileExistsError):
            at = self.descriptor
            os.link(name, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
            return True
        return False

    def remove(self, name: str) -> None:
        """Delete a file, a link itself, or a whole tree; nothing happens where it is not there."""
        _check_plain(self.path, name)
        with _translated(self.path / name), contextlib.suppress(FileNotFoundError):
            files.remove_entry(name, at=self.descriptor)

    def sync(self) -> None:
        """Have the names of this folder on the disk."""
        with _translated(self.path):
            os.fsync(self.descriptor)

    @contextlib.contextmanager
    def locked(
        self,
        name: str,
        *,
        seconds: float,
        mode: int,
        busy: StackproofError,
        waits: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Hold a lock file in this folder; as `files.locked`, with a file that is believed.

        One of the user's own gets no more than `mode`: whoever can read it could hold it.
        """

        def opened() -> int:
            descriptor = self.open_file(name, os.O_RDWR | os.O_CREAT, mode)
            state = os.fstat(descriptor)
            if state.st_uid == os.geteuid() and stat.S_IMODE(state.st_mode) & ~mode:
                os.fchmod(descriptor, stat.S_IMODE(state.st_mode) & mode)
            return descriptor

        def still(descriptor: int) -> bool:
            state = self.state(name)
            return state is not None and os.path.samestat(state, os.fstat(descriptor))

        with files.held(opened, still, seconds=seconds, busy=busy, waits=waits):
            yield


def open_folder(
    path: Path,
    *,
    make: int | None = None,
    private: bool = False,
    any_owner: bool = False,
    exact: bool = False,
    hint: str = HINT,
) -> OpenFolder:
    """Open a folder, judged by its owner and mode; use it with `with`.

    A link on the way is followed where it is this user's or root's, as a home on another disk is.
    With a mode in `make` the folder is made, those above too; `exact`: all of them with that mode,
    whatever the umask. `private`: nobody else may use it,
    and it is no link. `any_owner`: only to look, at what the user named. Raises `StackproofError`
    (NOT_PERMITTED with the hint, FILE_MISSING).
    """
    if private and make is not None and path.parent != path:
        open_folder(path.parent, make=0o700, any_owner=True, hint=hint).close()
    with _translated(path, link="is a link, which is not followed", taken=private):
        if any_owner and make is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            descriptor = _walked(path, make, hint, end=not private, exact=exact)
        shared = any_owner or is_shared(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        why = fault(os.fstat(descriptor), shared=shared, private=private)
        if private and not why and not outputs.keeps_names(os.stat("..", dir_fd=descriptor)):
            why = f"can be exchanged by others: see the mode of `{path.parent}`"
    if why:
        os.close(descriptor)
        raise refused(path, why, hint)
    return OpenFolder(path=path, descriptor=descriptor, shared=shared)


@contextlib.contextmanager
def _umask(*, exact: bool) -> Iterator[None]:
    """Let a folder have its mode at once where it is `exact`.

    A mode that is given afterwards may be given to another folder, which somebody has put there.
    """
    if not exact:
        yield
        return
    mask = os.umask(0)
    try:
        yield
    finally:
        os.umask(mask)


def _walked(
    path: Path,
    make: int | None,
    hint: str,
    *,
    end: bool,
    exact: bool = False,
    leaf: int = os.O_RDONLY,
) -> int:
    """Open a folder, name by name from the root; `end`: the last one may be a link, too."""
    names = list(reversed(os.path.abspath(path).split("/")[1:]))
    at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(_STEPS):
            while names and not names[-1]:
                names.pop()
            if not names:
                return os.open(".", _FOLDER | leaf, dir_fd=at)
            name = names.pop()
            try:
                entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except FileNotFoundError:
                if make is None:
                    raise
                with contextlib.suppress(FileExistsError), _umask(exact=exact):
                    os.mkdir(name, 0o777 if names and not exact else make, dir_fd=at)
                names.append(name)
                continue
            state = os.fstat(entry)
            if not stat.S_ISLNK(state.st_mode):
                os.close(at)
                at = entry
                continue
            target = os.readlink("", dir_fd=entry)
            os.close(entry)
            if not (end or names):
                raise refused(path, "is a link, which is not followed", hint)
            if outputs.is_foreign(state):
                raise refused(path, f"leads through a link of {owner_text(state.st_uid)}", _LINK)
            names += reversed(target.split("/"))
            if target.startswith("/"):
                os.close(at)
                at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    finally:
        os.close(at)


def private_folder(path: Path, *, hint: str, make: bool = True) -> Path:
    """Return a folder that only this user can use, made with those above where it is not there.

    Raises `StackproofError` (NOT_PERMITTED) with the hint where something else is there.
    """
    with open_folder(path, make=0o700 if make else None, private=True, hint=hint):
        return path


def one_private_folder(paths: Sequence[Path], *, hint: str) -> Path:
    """Return the first of some folders that is this user's own, else the first that can be made.

    In a folder for everybody another user may have taken a name; that keeps nobody from the next.
    Raises `StackproofError` (NOT_PERMITTED) with the hint where all are taken.
    """
    for make in (False, True):
        for path in paths:
            with contextlib.suppress(StackproofError):
                return private_folder(path, hint=hint, make=make)
    return private_folder(paths[-1], hint=hint)


def runtime_folder() -> Path | None:
    """Return `$XDG_RUNTIME_DIR`, None where that is not this user's own folder for itself.

    sudo(8) and jobs hand on that of somebody else.
    """
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or ".")
    with contextlib.suppress(OSError):
        state = os.lstat(path)
        own = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not fault(state)
        return path if own and path.is_absolute() else None
    return None


@contextlib.contextmanager
def _translated(path: Path, link: str = "", *, taken: bool = True) -> Iterator[None]:
    """Raise our error for one of the system; `link` says what an error at a link means.

    With `taken` a file in the place of a folder is one that somebody may have put there.
    """
    try:
        yield
    except OSError as error:
        if link and path.is_symlink():
            raise refused(path, link) from error
        if link and taken and error.errno == errno.ENOTDIR:
            raise refused(path, "is no folder") from error
        raise files.translate(error, path) from error
