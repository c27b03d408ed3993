"""A cpio archive to its entries, one after another, without ever holding a file's content.

Formats: SVR4's with hexadecimal numbers, without and with a sum (`070701`, `070702`: cpio(5) of
libarchive), which is what RPMs hold.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import NamedTuple

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.container.tar import Stream

_MAGICS = (b"070701", b"070702")
_HEAD = 110
_END = "TRAILER!!!"
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symlink"}


class CpioMember(NamedTuple):
    """A member of an archive: `kind` is file, folder, symlink or other.

    `size` is in bytes, for files only; `link` is the text of a link; `mode` its permission bits.
    Names of one file have the same `inode`, and the last of them its content.
    """

    name: str
    kind: str
    size: int
    link: str
    mode: int
    inode: int
    names: int


def entries(stream: Stream) -> Iterator[CpioMember]:
    """Yield the entries of an archive; the content of a file may be read before the next one.

    Raises `StackproofError`: IMAGE_UNREADABLE for what is no whole archive, TOO_LARGE for names
    that no file system takes.
    """
    while True:
        head = stream.read(_HEAD)
        if len(head) < _HEAD:
            raise _damaged(stream, f"it ends within an entry, at byte {stream.tell()}")
        if head[:6] not in _MAGICS:
            raise _damaged(stream, f"there is no entry before byte {stream.tell()}")
        inode, mode, _, _, names, _, size, _, _, _, _, length, _ = _numbers(stream, head)
        if not 1 < length <= limits.TAR_NAME.bytes:
            raise _too_long(stream, length)
        name = _text(stream, length)
        _align(stream)
        if name == _END:
            return
        kind = _KINDS.get(stat.S_IFMT(mode), "other")
        if kind == "symlink" and size > limits.TAR_NAME.bytes:
            raise _too_long(stream, size)
        start = stream.tell()
        link = _text(stream, size) if kind == "symlink" else ""
        yield CpioMember(
            name, kind, size if kind == "file" else 0, link, stat.S_IMODE(mode), inode, names
        )
        stream.skip(start + size - stream.tell())
        _align(stream)


def _numbers(stream: Stream, head: bytes) -> tuple[int, ...]:
    fields = [head[at : at + 8] for at in range(6, _HEAD, 8)]
    if not all(field.isalnum() for field in fields):
        raise _damaged(stream, f"a number before byte {stream.tell()} is none")
    try:
        return tuple(int(field, 16) for field in fields)
    except ValueError:
        raise _damaged(stream, f"a number before byte {stream.tell()} is none") from None


def _text(stream: Stream, length: int) -> str:
    content = stream.read(length)
    if len(content) < length:
        raise _damaged(stream, "it ends within a name")
    return content.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _align(stream: Stream) -> None:
    stream.skip(-stream.tell() % 4)


def _damaged(stream: Stream, message: str) -> StackproofError:
    return fail(
        Reason.IMAGE_UNREADABLE,
        f"the archive is damaged: {message}",
        where=Location(file=stream.name),
        hint="copy or save it again",
    )


def _too_long(stream: Stream, length: int) -> StackproofError:
    return fail(
        Reason.TOO_LARGE,
        f"the archive has a path of {length} characters",
        where=Location(file=stream.name),
        hint="no file system takes it: save it again",
    )
