"""A cpio archive to its entries, one after another, without ever holding a file's content.

Formats: SVR4's with hexadecimal numbers, without and with a sum (`070701`, `070702`: cpio(5) of
libarchive), which is what RPMs hold.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import NamedTuple

from stackproof.image.container import tar
from stackproof.image.container.tar import Stream, damaged_archive

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
            raise damaged_archive(stream, f"it ends within an entry, at byte {stream.tell()}")
        if head[:6] not in _MAGICS:
            raise damaged_archive(stream, f"there is no entry before byte {stream.tell()}")
        inode, mode, _, _, names, _, size, _, _, _, _, length, _ = _numbers(stream, head)
        if length < 2:
            raise damaged_archive(stream, f"an entry before byte {stream.tell()} has no name")
        tar.check_length(stream, length)
        name = _text(stream, length)
        _align(stream)
        if name == _END:
            return
        kind = _KINDS.get(stat.S_IFMT(mode), "other")
        if kind == "symlink":
            tar.check_length(stream, size)
        start = stream.tell()
        link = _text(stream, size) if kind == "symlink" else ""
        yield CpioMember(
            name, kind, size if kind == "file" else 0, link, stat.S_IMODE(mode), inode, names
        )
        stream.skip(start + size - stream.tell())
        _align(stream)


def _numbers(stream: Stream, head: bytes) -> tuple[int, ...]:
    fields = [head[at : at + 8] for at in range(6, _HEAD, 8)]
    if any(field.strip(b"0123456789ABCDEFabcdef") for field in fields):
        raise damaged_archive(stream, f"a number before byte {stream.tell()} is none")
    return tuple(int(field, 16) for field in fields)


def _text(stream: Stream, length: int) -> str:
    content = stream.read(length)
    if len(content) < length:
        raise damaged_archive(stream, "it ends within a name")
    return tar.text(content)


def _align(stream: Stream) -> None:
    stream.skip(-stream.tell() % 4)
