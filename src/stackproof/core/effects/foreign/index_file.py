"""The file of a repository's index: read and changed under SQLite's locks, never opened by SQLite.

SQLite believes what lies beside its file: a journal there may name any other file, which is then
deleted. So the file is opened as `foreign.folder` opens files, SQLite works on its bytes in memory,
and the pages that differ are written back as SQLite does, the journal with the old ones first:
https://www.sqlite.org/fileformat2.html#the_rollback_journal. What a killed program left, uenv or
stackproof, is undone by SQLite in a copy. uenv sees a file that SQLite changes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.foreign.folder import OpenFolder

_JOURNAL = "-journal"
# https://www.sqlite.org/src/file/src/os_unix.c: the bytes that are locked, and how many.
_PENDING, _RESERVED, _SHARED = (0x40000000, 1), (0x40000001, 1), (0x40000002, 510)
_ALL = (_PENDING[0], 512)
_LOCK = "hhqqi4x"  # struct flock, fcntl(2)
_MAGIC = bytes.fromhex("d9d505f920a163d7")
_FILE_MAGIC = b"SQLite format 3\0"
_SECTOR = 512
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))
_CHUNK = 1 << 20
_WAIT_S = 0.01


class DamagedIndexError(Exception):
    """The file is no index, in words."""


class BusyIndexError(Exception):
    """Others do not end."""


class OtherIndexError(Exception):
    """The file is a database of another kind."""


def read(folder: OpenFolder, name: str, *, seconds: float) -> bytes:
    """Return the bytes of an index as they are between two changes.

    Raises `DamagedIndexError`, `OtherIndexError`, `BusyIndexError` when somebody's change takes
    more than so many seconds, and `StackproofError` for what is no plain file.
    """
    with (
        files.close_at_end(
            folder.open_file(name, links=sys.maxsize)
        ) as descriptor,  # and so the locks
        files.translate_errors(folder.path / name),
    ):
        _wait(lambda: _share(descriptor), seconds)
        return _sound(folder, name, descriptor)[0]


@contextlib.contextmanager
def changing(
    folder: OpenFolder, name: str, *, seconds: float
) -> Iterator[tuple[bytes, Callable[[bytes], None]]]:
    """Give the bytes of an index and a function that replaces them, while nobody else changes it.

    Raises as `read`.
    """
    # It has one name more while it is made.
    with files.close_at_end(folder.open_file(name, os.O_RDWR, links=2)) as descriptor:
        with files.translate_errors(folder.path / name):
            _wait(lambda: _share(descriptor) and _reserve(descriptor), seconds)
            content, journal = _sound(folder, name, descriptor, reserved=True)
            if journal:
                _exclude(descriptor, seconds)
                _write_pages(descriptor, b"", content)
                folder.remove(name + _JOURNAL)
                folder.sync()
                _share_again(descriptor)

        def replace(new: bytes) -> None:
            if new != content:
                with files.translate_errors(folder.path / name):
                    _commit(folder, name, descriptor, (content, new), seconds)

        yield content, replace


@contextlib.contextmanager
def connected(content: bytes) -> Iterator[sqlite3.Connection]:
    """Open the bytes of an index in memory, or a copy where SQLite was made without that."""
    if not hasattr(sqlite3.Connection, "deserialize"):
        with _copied(content) as connection:
            yield connection
        return
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        if content:
            connection.deserialize(content)
        yield connection


def content_of(connection: sqlite3.Connection) -> bytes:
    """Return the bytes of an index that `connected` opened."""
    if hasattr(connection, "serialize"):
        return connection.serialize()
    ((*_, path),) = connection.execute("PRAGMA database_list").fetchall()
    return Path(path).read_bytes()


@contextlib.contextmanager
def _copied(content: bytes, journal: bytes = b"") -> Iterator[sqlite3.Connection]:
    """Open a copy of an index, with its journal, in a folder for nobody else."""
    with tempfile.TemporaryDirectory(prefix="stackproof-index-") as place:
        copy = Path(place, "index.db")
        copy.write_bytes(content)
        copy.with_name(copy.name + _JOURNAL).write_bytes(journal)
        with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            yield connection


# ------------------------------------------------------------------------------------------- locks


def _lock(descriptor: int, kind: int, where: tuple[int, int]) -> bool:
    """Lock some bytes, or unlock them; return false where somebody else has them locked.

    The lock is that of the open file and not of the process: it meets those of every other one.
    """
    request = struct.pack(_LOCK, kind, os.SEEK_SET, *where, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EAGAIN}:
            return False
        raise
    return True


def _is_reserved(descriptor: int) -> bool:
    request = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, *_RESERVED, 0)
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request)
    return bool(struct.unpack(_LOCK, answer)[0] != fcntl.F_UNLCK)


def _share(descriptor: int) -> bool:
    """Take the lock of who reads; return whether it was to be had."""
    if not _lock(descriptor, fcntl.F_RDLCK, _PENDING):
        return False
    shared = _lock(descriptor, fcntl.F_RDLCK, _SHARED)
    _lock(descriptor, fcntl.F_UNLCK, _PENDING)
    return shared


def _reserve(descriptor: int) -> bool:
    """Take the lock of who will write; who does not get it lets go of the other one, too."""
    reserved = _lock(descriptor, fcntl.F_WRLCK, _RESERVED)
    if not reserved:
        _lock(descriptor, fcntl.F_UNLCK, _ALL)
    return reserved


def _exclude(descriptor: int, seconds: float) -> None:
    """Take the lock of who writes: no new reader begins, and those that read are waited for."""
    _wait(lambda: _lock(descriptor, fcntl.F_WRLCK, _PENDING), seconds)
    _wait(lambda: _lock(descriptor, fcntl.F_WRLCK, _SHARED), seconds)


def _share_again(descriptor: int) -> None:
    _lock(descriptor, fcntl.F_RDLCK, _SHARED)
    _lock(descriptor, fcntl.F_UNLCK, _PENDING)


def _wait(attempt: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() > end:
            raise BusyIndexError
        time.sleep(_WAIT_S)


# ----------------------------------------------------------------------------------------- content


def _sound(
    folder: OpenFolder, name: str, descriptor: int, *, reserved: bool = False
) -> tuple[bytes, bool]:
    """Return the bytes of an index, and whether a change had to be undone in them."""
    content = _checked(_content(descriptor))
    journal = b""
    if content and (reserved or not _is_reserved(descriptor)):
        journal = _journal(folder, name + _JOURNAL)
    return (_checked(_recovered(content, journal)), True) if journal else (content, False)


def _content(descriptor: int) -> bytes:
    most = limits.INDEX.bytes
    if (size := os.fstat(descriptor).st_size) > most:
        raise DamagedIndexError(f"it, or its journal, has more than {most} bytes")
    pieces, at = [], 0
    while at <= most and (piece := os.pread(descriptor, max(_CHUNK, size - at), at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _checked(content: bytes) -> bytes:
    size = _page_size(content)
    if content and (
        not content.startswith(_FILE_MAGIC) or size not in _PAGE_SIZES or len(content) % size
    ):
        raise DamagedIndexError("it is no database of SQLite, or has been cut")
    if content and content[18:20] != b"\x01\x01":
        raise OtherIndexError
    return content


def _journal(folder: OpenFolder, name: str) -> bytes:
    """Return the journal of a change that was interrupted; nothing where none was."""
    if folder.state(name) is None:
        return b""
    with files.close_at_end(folder.open_file(name)) as descriptor:
        content = _content(descriptor)
    if content[-8:] == _MAGIC and content[-16:-12] != bytes(4):
        raise DamagedIndexError("its journal names another journal, which neither uenv nor we make")
    return content if content[:1].strip(b"\0") else b""


def _recovered(content: bytes, journal: bytes) -> bytes:
    """Return an index with the change undone that a journal is of: by SQLite, in a copy."""
    with _copied(content, journal) as connection:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        ((*_, path),) = connection.execute("PRAGMA database_list").fetchall()
        with open(path, "rb") as stream:
            return _content(stream.fileno())


def _commit(
    folder: OpenFolder, name: str, descriptor: int, change: tuple[bytes, bytes], seconds: float
) -> None:
    """Write a change as SQLite does: the journal, the pages, and the journal away."""
    old, new = change
    _write_journal(folder, name + _JOURNAL, os.fstat(descriptor).st_mode & 0o777, change)
    _exclude(descriptor, seconds)
    try:
        _write_pages(descriptor, old, new)
    except BaseException:
        _write_pages(descriptor, b"", old)
        folder.remove(name + _JOURNAL)
        raise
    folder.remove(name + _JOURNAL)  # from here on it is made
    folder.sync()


def _write_journal(folder: OpenFolder, name: str, mode: int, change: tuple[bytes, bytes]) -> None:
    old, new = change
    size, nonce = _page_size(old), os.urandom(4)
    pages = _changed(old, new, size)
    header = _MAGIC + struct.pack(">i", len(pages)) + nonce
    header += struct.pack(">III", len(old) // size, _SECTOR, size)
    records = [header.ljust(_SECTOR, b"\0")]
    for number in pages:
        page = old[number * size : (number + 1) * size]
        check = int.from_bytes(nonce, "big") + sum(page[size - 200 : 0 : -200])
        records.append(struct.pack(">I", number + 1) + page + struct.pack(">I", check & 0xFFFFFFFF))
    folder.remove(name)  # one that is not of a change
    with open(folder.create(name, 0o600), "wb") as stream:
        stream.write(b"".join(records))
        stream.flush()
        os.fchmod(stream.fileno(), mode)
        os.fsync(stream.fileno())
    folder.sync()


def _page_size(content: bytes) -> int:
    size = int.from_bytes(content[16:18], "big")
    return 65536 if size == 1 else size


def _changed(old: bytes, new: bytes, size: int) -> list[int]:
    """Return the numbers, from 0, of the pages of `old` that differ in `new`."""
    starts = range(0, len(old), size)
    return [at // size for at in starts if old[at : at + size] != new[at : at + size]]


def _write_pages(descriptor: int, old: bytes, new: bytes) -> None:
    """Let a file that has `old` have `new`; with nothing for `old`, all of it is written."""
    size = _page_size(new)
    for at in range(0, len(new), size):
        page = new[at : at + size]
        if page != old[at : at + size]:
            done = 0
            while done < len(page):
                done += os.pwrite(descriptor, page[done:], at + done)
    os.ftruncate(descriptor, len(new))
    os.fsync(descriptor)
