"""A tar archive to its entries, one after another, without ever holding a file's content.

It is the one reader of archives that others made, layers of images and packages alike.

Formats: ustar and pax (POSIX.1-2017, pax, "ustar Interchange Format") and GNU tar's long names and
large numbers ("GNU tar: Basic Tar Format"). Sparse files are refused: no tool writes them into a
layer, and their content cannot be told from their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail

BLOCK = 512
_KINDS = {b"1": "hardlink", b"2": "symlink", b"5": "folder"}
_MARKS = {257: (b"ustar\x00", b"ustar ")}


class Stream(Protocol):
    """Bytes that come one after another."""

    name: str

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end only."""

    def skip(self, count: int) -> None:
        """Pass over the next `count` bytes."""

    def tell(self) -> int:
        """Return the number of bytes that have been passed."""


class MemoryStream:
    """An archive in memory as such a stream; `name` stands in messages."""

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        self._content, self._at = content, 0

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end only."""
        part = self._content[self._at : self._at + count]
        self._at += len(part)
        return part

    def skip(self, count: int) -> None:
        """Pass over the next `count` bytes, beyond the end if there are fewer."""
        self._at += count

    def tell(self) -> int:
        """Return the number of bytes that have been passed."""
        return self._at


class ArchiveMember(NamedTuple):
    """A member of an archive: `kind` is file, folder, symlink, hardlink or other.

    `size` is in bytes, for files only; `link` is the text of a link; `mode` its permission bits.
    """

    name: str
    kind: str
    size: int
    link: str
    mode: int


def damaged(name: str, message: str, what: str = "image") -> StackproofError:
    """Return the error for an image, or an archive, whose parts do not fit together."""
    return fail(
        Reason.IMAGE_UNREADABLE,
        f"the {what} is damaged: {message}",
        where=Location(file=name),
        hint="copy or save it again",
    )


def damaged_archive(stream: Stream, message: str) -> StackproofError:
    """Return the error for an archive that is read."""
    return damaged(stream.name, message, "archive")


def looks_like_tar(head: bytes) -> bool:
    """Return True for the beginning of a file that can be a tar archive."""
    return len(head) >= BLOCK and head[257:263] in _MARKS[257]


def entries(stream: Stream) -> Iterator[ArchiveMember]:
    """Yield the entries of an archive; the content of a file may be read before the next one.

    Raises `StackproofError`: IMAGE_UNREADABLE for what is no whole archive, UNSUPPORTED for sparse
    files, TOO_LARGE for names that no file system takes.
    """
    extensions: dict[str, str] = {}
    while True:
        head = stream.read(BLOCK)
        if not head or head == bytes(BLOCK):
            return
        if len(head) < BLOCK:
            raise damaged_archive(stream, f"it ends within an entry, at byte {stream.tell()}")
        _verify(stream, head)
        kind, size = head[156:157], _number(stream, head[124:136])
        if kind in {b"L", b"K", b"x", b"g"}:
            content = _extension(stream, size)
            if kind == b"x":
                extensions.update(_pax(stream, content))
            elif kind != b"g":  # what holds for all entries is a comment, in practice
                extensions["path" if kind == b"L" else "linkpath"] = text(content)
            continue
        if kind == b"S" or any(key.startswith("GNU.sparse.") for key in extensions):
            raise fail(
                Reason.UNSUPPORTED,
                "the archive holds a sparse file",
                where=Location(file=stream.name),
                hint="save it with another tool",
            )
        entry = _entry(stream, head, kind, size, extensions)
        extensions = {}
        start = stream.tell()
        yield entry
        if entry.kind == "file" or (entry.kind == "other" and size):
            whole = -(-(entry.size or size) // BLOCK) * BLOCK
            stream.skip(start + whole - stream.tell())


def _entry(
    stream: Stream, head: bytes, kind: bytes, size: int, extensions: dict[str, str]
) -> ArchiveMember:
    name = extensions.get("path")
    if name is None:
        name = text(head[:100])
        prefix = text(head[345:500]) if head[257:263] == b"ustar\x00" else ""
        name = f"{prefix}/{name}" if prefix else name
    link = extensions.get("linkpath", text(head[157:257]))
    check_length(stream, len(name))
    check_length(stream, len(link))
    if "size" in extensions:
        size = _pax_size(stream, extensions["size"])
    is_file = kind in {b"0", b"\0", b"7"}
    if is_file and name.endswith("/"):  # before ustar, folders were told so
        return ArchiveMember(name, "folder", 0, "", 0o755)
    what = "file" if is_file else _KINDS.get(kind, "other")
    mode = _number(stream, head[100:108]) & 0o7777
    # Links and folders have no content, whatever their size says.
    has_content = what in {"file", "other"} and kind not in {b"3", b"4", b"6"}
    return ArchiveMember(name, what, size if has_content else 0, link, mode)


def check_length(stream: Stream, length: int) -> None:
    """Raise `StackproofError` (TOO_LARGE) for a path that no file system takes."""
    if length > limits.TAR_NAME.bytes:
        raise fail(
            Reason.TOO_LARGE,
            f"the archive has a path of {length} characters",
            where=Location(file=stream.name),
            hint="no file system takes it: save it again",
        )


def _verify(stream: Stream, head: bytes) -> None:
    """Raise unless the checksum of a header is right."""
    total = sum(head) - sum(head[148:156]) + 8 * 32
    try:
        said = int(head[148:156].strip(b" \0") or b"0", 8)
    except ValueError:
        said = -1
    if said != total:
        raise damaged_archive(stream, f"the entry before byte {stream.tell()} has a wrong checksum")


def _number(stream: Stream, field: bytes) -> int:
    """Return a number: octal digits, or GNU's base 256."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise damaged_archive(stream, f"a size before byte {stream.tell()} is negative")
        return int.from_bytes(bytes([field[0] & 0x3F]) + field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip()
    try:
        number = int(digits or b"0", 8)
    except ValueError:
        number = -1
    if number < 0:
        raise damaged_archive(stream, f"a number before byte {stream.tell()} is none")
    return number


def _extension(stream: Stream, size: int) -> bytes:
    if size > limits.TAR_HEADER.bytes:
        raise fail(
            Reason.TOO_LARGE,
            f"a name or an extended header of the archive has {size} bytes",
            where=Location(file=stream.name),
            hint="check that this is the file you meant",
        )
    content = stream.read(size)
    if len(content) < size:
        raise damaged_archive(stream, "it ends within a name")
    stream.skip(-size % BLOCK)
    return content


def _pax(stream: Stream, content: bytes) -> dict[str, str]:
    """Return the records `LENGTH KEY=VALUE` of an extended header."""
    found = {}
    at = 0
    while at < len(content):
        digits, space, _ = content[at : at + 20].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        record = content[at : at + length]
        if not space or length <= len(digits) + 1 or len(record) < length or record[-1:] != b"\n":
            raise damaged_archive(stream, "an extended header is no list of records")
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not equals:
            raise damaged_archive(stream, "an extended header has a record without `=`")
        found[text(key)] = text(value)
        at += length
    return found


def _pax_size(stream: Stream, digits: str) -> int:
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
        raise damaged_archive(stream, "an extended header has a size that is no number")
    return int(digits)


def text(field: bytes) -> str:
    """Return a name as Python shows it, up to its NUL."""
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
