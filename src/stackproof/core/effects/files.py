"""Files: written whole or not at all, deleted in one place."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import select
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from stackproof.core import limits
from stackproof.core.effects import closed
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.limits import Limit

# --------------------------------------------------------------------------------------------------
# Delete a folder with all in it, by descriptors: no link is followed, whoever swaps what.
#
# Folders below others are moved up before they are emptied, so that no tree is too deep.

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def close_at_end(descriptor: int) -> Iterator[int]:
    """Give a descriptor that is closed at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_entry(name: str, *, at: int | None = None) -> None:
    """Delete a file, a link itself, or a folder with all in it, in the open folder `at` if given.

    Folders that their owner may not write to, as installed software has them, are opened first.
    Raises `OSError`.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=at)
        return
    with close_at_end(_open_to_delete(name, at)) as top:
        _empty(top, top)
        while inner := os.listdir(top):
            for below in inner:
                with close_at_end(_open_to_delete(below, top)) as descriptor:
                    _empty(descriptor, top)
                os.rmdir(below, dir_fd=top)
    os.rmdir(name, dir_fd=at)


def _empty(descriptor: int, top: int) -> None:
    """Delete the files of a folder, and move the folders in it to the top of the tree."""
    with os.scandir(descriptor) as entries:
        every = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in every:
        if not is_folder:
            os.unlink(name, dir_fd=descriptor)
        elif descriptor != top:
            os.close(_open_to_delete(name, descriptor))  # only who may write to it may move it
            os.rename(name, os.urandom(12).hex(), src_dir_fd=descriptor, dst_dir_fd=top)


def _open_to_delete(name: str, at: int | None) -> int:
    """Open a folder, and let its owner write to it."""
    with close_at_end(
        os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    ) as handle:
        state = os.fstat(handle)
        if state.st_uid == os.geteuid() and stat.S_IMODE(state.st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(".", _FOLDER, dir_fd=handle)


_CHUNK = 1 << 20
DIGEST_SUFFIX = ".sha256"
"""Behind the name of a file: its digest, as sha256sum(1) writes and checks it."""


def cache_home(environment: dict[str, str] | None = None) -> Path:
    """Return the folder for everything that can be made again.

    `STACKPROOF_CACHE` wins, then `$XDG_CACHE_HOME/stackproof`, then `~/.cache/stackproof`.
    """
    env = os.environ if environment is None else environment
    if env.get("STACKPROOF_CACHE"):
        return Path(env["STACKPROOF_CACHE"])
    base = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", "/"), ".cache")
    return Path(base) / "stackproof"


def translate(error: OSError, path: os.PathLike[str] | str | bytes) -> StackproofError:
    """Return the error of ours that says what an `OSError` on `path` means to a user."""
    path = os.fsdecode(path)  # an error of what was opened by bytes has bytes
    reason, message, hint = Reason.INVALID_VALUE, f"`{path}`: {error.strerror}", None
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            reason, message = Reason.DISK_FULL, f"no space left while writing `{path}`"
            hint = _space_hint(path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            reason, message = Reason.NOT_PERMITTED, f"no right to use {message}"
            hint = _permission_hint(path)
        case errno.ENOLCK | errno.ENOSYS:  # of NFS without lockd, and of Lustre without `flock`
            reason, message = Reason.NOT_PERMITTED, f"no right to use {message}"
            hint = "its file system may lack locks: Lustre has them with `flock`, NFS with lockd"
        case errno.ENOENT:
            reason, message = Reason.FILE_MISSING, f"`{path}` does not exist"
            hint = "check the path, and that its folder is there"
        case errno.EISDIR:
            message, hint = f"`{path}` is a folder", "name a file"
        case errno.ENOTDIR | errno.EEXIST:
            hint = "a folder of this path is a file, or what is to be made is there: name another"
    return fail(reason, message, where=Location(file=path), hint=hint)


@contextlib.contextmanager
def translate_errors(path: os.PathLike[str] | str) -> Iterator[None]:
    """Raise `StackproofError` for an `OSError` of what is done with `path`; see `translate`."""
    try:
        yield
    except OSError as error:
        raise translate(error, path) from error


def _space_hint(path: str) -> str:
    """Return the hint for a file system that is full: only what is kept can lie elsewhere."""
    if Path(os.path.abspath(path)).is_relative_to(os.path.abspath(cache_home())):
        return "free space, or set STACKPROOF_CACHE to a folder on a larger file system"
    return "free space there, or name a place on another file system"


def check_empty(folder: Path) -> None:
    """Check that results can be written to a folder, which need not be there yet.

    Raises `StackproofError`: USAGE for a file or for a folder that holds something, NOT_PERMITTED.
    """
    with translate_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise fail(Reason.USAGE, f"`{folder}` is not a folder", hint="choose another -o")
        if folder.exists() and any(folder.iterdir()):
            raise fail(
                Reason.USAGE,
                f"`{folder}` is not empty, and holds no results of this",
                hint="choose another -o",
            )


def _permission_hint(path: str) -> str:
    """Return the hint for a path that may not be read, or written."""
    if os.path.isfile(path) and not os.access(path, os.R_OK):
        return "make the file readable for you"
    return closed.hint_at_closed(path) or "choose a path you may write to"


def refuse_closed(path: str) -> None:
    """Raise `StackproofError` (NOT_PERMITTED) for a path below a folder that may not be entered."""
    if closed.hint_at_closed(path):
        raise translate(PermissionError(errno.EACCES, os.strerror(errno.EACCES)), path)


def write(
    path: os.PathLike[str] | str,
    content: bytes | str,
    *,
    mode: int = 0o644,
    beside: os.PathLike[str] | None = None,
) -> None:
    """Write a file atomically: a temporary file beside it, then a rename.

    `beside` is another folder of the same file system for the temporary file: whoever is killed
    leaves it there. Raises `StackproofError` (DISK_FULL, NOT_PERMITTED); the old file stays as it
    was then.
    """
    data = content.encode() if isinstance(content, str) else content
    with _replacing(os.fspath(path), mode, beside) as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def _replacing(
    target: str, mode: int, beside: os.PathLike[str] | str | None = None
) -> Iterator[BinaryIO]:
    """Give a file that takes the place of `target` when all of it was written."""
    folder, temporary = os.path.dirname(target) or ".", ""
    try:
        os.makedirs(folder, exist_ok=True)
        name = f".{os.path.basename(target)}."
        handle, temporary = tempfile.mkstemp(dir=beside or folder, prefix=name)
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, mode)  # by its name it may be another's file by now
            yield stream
        os.replace(temporary, target)
    except FileNotFoundError as error:  # of a folder that is there, such as /proc
        raise fail(
            Reason.NOT_PERMITTED,
            f"no file can be made in `{folder}`",
            where=Location(file=target),
            hint="name one in another folder",
        ) from error
    except OSError as error:
        raise translate(error, target) from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):  # gone after the rename
                os.unlink(temporary)


def read_bounded(
    path: os.PathLike[str] | str,
    limit: Limit,
    *,
    hint: str = "check that this is the file you meant",
    stream: BinaryIO | None = None,
) -> bytes:
    """Return a file's bytes, at most those of its limit; also of a pipe, whose size nobody knows.

    `stream` is what is open already, and `path` then only its name. Raises `StackproofError`:
    TOO_LARGE with the hint for more, FILE_MISSING, NOT_PERMITTED, INVALID_VALUE for a pipe that
    nobody writes to.
    """
    with translate_errors(path):
        content = _opened(path, limit.bytes) if stream is None else stream.read(limit.bytes + 1)
    if content is None or len(content) > limit.bytes:
        raise fail(
            Reason.TOO_LARGE,
            f"`{os.fspath(path)}` has more than {limit.bytes} bytes",
            where=Location(file=os.fspath(path)),
            hint=hint,
        )
    return content


def _opened(path: os.PathLike[str] | str, most: int) -> bytes | None:
    """Return a file's bytes, one more than allowed at most; None where more are known of."""
    # Without O_NONBLOCK the open itself waits where nobody writes to a pipe.
    with close_at_end(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as descriptor:
        state = os.fstat(descriptor)
        if stat.S_ISFIFO(state.st_mode):
            return _of_pipe(descriptor, path, most + 1)
        if stat.S_ISREG(state.st_mode) and state.st_size > most:
            return None
        os.set_blocking(descriptor, True)  # a terminal waits for its user
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(most + 1)


def _of_pipe(descriptor: int, path: os.PathLike[str] | str, most: int) -> bytes:
    """Return the bytes that come through a pipe, at most so many; silence has an end."""
    found = bytearray()
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    while len(found) < most:
        try:
            chunk = os.read(descriptor, min(_CHUNK, most - len(found)))
            patience = limits.PIPE_OPENED.seconds  # an end, or nobody has come yet
        except BlockingIOError:
            chunk, patience = b"", limits.PIPE.seconds
        found += chunk
        if chunk:
            continue
        ready = poller.poll(patience * 1000)
        if not ready:
            raise fail(
                Reason.INVALID_VALUE,
                f"nobody has written to `{os.fspath(path)}` for {patience} seconds",
                where=Location(file=os.fspath(path)),
                hint="it is a named pipe: write to it, or name a file",
            )
        if not ready[0][1] & select.POLLIN:  # the last writer has gone, and nothing is left
            break
    return bytes(found)


def copy(source: os.PathLike[str] | str, target: Path) -> None:
    """Copy a file to where others may read it, folders made; whoever looks sees all or nothing.

    Raises `StackproofError` (DISK_FULL, NOT_PERMITTED); an old file stays as it was then.
    """
    with (
        translate_errors(source),
        open(source, "rb") as content,
        _replacing(os.fspath(target), 0o644) as stream,
    ):
        shutil.copyfileobj(content, stream)


@contextlib.contextmanager
def locked(
    path: Path,
    *,
    seconds: float,
    mode: int,
    busy: StackproofError,
    waits: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold a lock file; the kernel lets go of it however the holder ends.

    The holder may remove the file: who waited for it then waits for the new one. `waits` is called
    when somebody else holds it. Raises `busy` when that is so for `seconds`, and what `translate`
    makes of errors.
    """

    def opened() -> int:
        with translate_errors(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            return os.open(path, flags, mode)

    def still(descriptor: int) -> bool:
        return _is_still(descriptor, path)

    with held(opened, still, seconds=seconds, busy=busy, waits=waits):
        yield


@contextlib.contextmanager
def held(
    opened: Callable[[], int],
    still: Callable[[int], bool],
    *,
    seconds: float,
    busy: StackproofError,
    waits: Callable[[], None] = lambda: None,
) -> Iterator[int]:
    """Hold the lock of the file that `opened` opens, while `still` says that it has its name.

    As `locked`; gives the descriptor, which is closed at the end.
    """
    end, told = time.monotonic() + seconds, False
    while True:
        with close_at_end(opened()) as descriptor:
            while not _try_lock(descriptor):
                if time.monotonic() > end:
                    raise busy
                if not told:
                    told = True
                    waits()
                time.sleep(0.02)
            if still(descriptor):
                yield descriptor
                return


def _is_still(descriptor: int, path: Path) -> bool:
    """Return True where an open file is the one of that path."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    return False


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sha256(path: os.PathLike[str] | str) -> str:
    """Return the SHA-256 of a file as hexadecimal digits; raises `StackproofError`."""
    with translate_errors(path), open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def remove(path: os.PathLike[str] | str) -> None:
    """Delete a file or a whole tree; nothing happens when it is not there.

    A symbolic link is deleted itself, never what it points to. Folders that their owner may not
    write to (as installed software has them) are opened first. Raises `StackproofError`.
    """
    with translate_errors(path), contextlib.suppress(FileNotFoundError):
        remove_entry(os.fspath(path))
