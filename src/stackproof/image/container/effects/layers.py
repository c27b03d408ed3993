"""Layers of container images: unpacked once, checked against their digest, kept by it.

Of a layer are kept its entries, and the content of what a check reads: ELF files, ld.so.cache, and
what a SIF or an image says of its environment. Both lie in the cache under the layer's digest; a
damaged entry there is made again.
"""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import lzma
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

from stackproof.core import limits, noun
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.container import tar
from stackproof.image.container.tree import Member
from stackproof.linking.elf import MAGIC

_FREE_BYTES = 1 << 30  # of a layer, whatever its ratio
_CHUNK = 1 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_XZ, _BZIP2 = b"\xfd7zXZ\0", re.compile(rb"BZh[1-9]1AY&SY")
_HEAD_BYTES = 10
_KEPT = ("ld.so.cache",)
_MAX_CACHED_BYTES = 16 << 30


class Layer(Value):
    """A layer in the cache; `content` holds what was kept, `size` is its length in bytes."""

    SCHEMA: ClassVar[str] = "stackproof/layer/1"

    members: tuple[Member, ...]
    size: int


class Content:
    """The open file with what was kept of a layer, and the layer's digest."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.digest = path.parent.name

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # never opened
            os.close(self.descriptor)


class Blob(Value):
    """A part of a file: where it begins, how long it is in bytes, and the digest it must have.

    `plain_digest` is that of the layer when it is not compressed. Without either it has none.
    """

    path: str
    offset: int
    size: int
    digest: str = ""
    plain_digest: str = ""


def whole(path: str) -> Blob:
    """Return all of a file, without a digest that it must have; raises `StackproofError`."""
    try:
        state = os.stat(path)
    except OSError as error:
        raise files.translate(error, path) from error
    if not stat.S_ISREG(state.st_mode):  # a FIFO would be waited for, a device has no end
        raise fail(
            Reason.INVALID_VALUE,
            f"`{path}` is not a regular file",
            where=Location(file=path),
            hint="write the image to a file first",
        )
    return Blob(path=path, offset=0, size=state.st_size)


class _Unpacker(Protocol):
    """An unpacker of `zlib`, `lzma` or `bz2`."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _gzip() -> _Unpacker:
    return zlib.decompressobj(wbits=31)


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.XZ.bytes)


class FileStream:
    """A part of an open file as a `tar.Stream`."""

    def __init__(self, name: str, stream: BinaryIO, offset: int, size: int) -> None:
        self.name = name
        self._stream = stream
        self._start = offset
        self._size = size
        self._at = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end only."""
        count = max(0, min(count, self._size - self._at))
        self._stream.seek(self._start + self._at)
        content = self._stream.read(count)
        self._at += len(content)
        return content

    def skip(self, count: int) -> None:
        """Pass over bytes; also over the end, where nothing is read any more."""
        self._at += count

    def tell(self) -> int:
        """Return the number of bytes that have been passed."""
        return self._at


class _Plain:
    """The plain bytes of a layer as a `tar.Stream`; their digest grows on the way."""

    def __init__(self, name: str, chunks: Iterator[bytes], most: int) -> None:
        self.name = name
        self.digest = hashlib.sha256()
        self._chunks = chunks
        self._most = most
        self._buffer = b""
        self._at = 0
        self._came = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end only."""
        parts = []
        while count > 0 and (part := self._next(count)):
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def skip(self, count: int) -> None:
        """Pass over bytes."""
        while count > 0:
            passed = len(self._next(count))
            if not passed:
                raise tar.damaged(self.name, "it ends within a file")
            count -= passed

    def tell(self) -> int:
        """Return the number of plain bytes that have been passed."""
        return self._at

    def finish(self) -> str:
        """Read what is left, and return the digest of everything."""
        while self._next(_CHUNK):
            pass
        return f"sha256:{self.digest.hexdigest()}"

    def _next(self, count: int) -> bytes:
        """Return some of the next bytes, none at the end."""
        if not self._buffer:
            self._buffer = next((chunk for chunk in self._chunks if chunk), b"")
            self.digest.update(self._buffer)
            self._came += len(self._buffer)
            if self._came > self._most:
                raise _too_large(self.name, f"more than {self._most} bytes")
        part, self._buffer = self._buffer[:count], self._buffer[count:]
        self._at += len(part)
        return part


def _too_large(name: str, what: str) -> StackproofError:
    return fail(
        Reason.TOO_LARGE,
        f"a layer unpacks to {what}",
        where=Location(file=name),
        hint="check that this is the image you meant",
    )


def _chunks(stream: FileStream, digest: hashlib._Hash) -> Iterator[bytes]:
    while content := stream.read(_CHUNK):
        digest.update(content)
        yield content


def _unpacked(
    chunks: Iterator[bytes], name: str, opener: Callable[[], _Unpacker]
) -> Iterator[bytes]:
    """Yield the bytes that gzip, xz or bzip2 packed; several members may follow one another."""
    unpacker = opener()
    try:
        for chunk in chunks:
            content, plain = chunk, b""
            while content or len(plain) == _CHUNK:
                if unpacker.eof:
                    if not content.strip(b"\0"):  # padding
                        break
                    unpacker = opener()
                plain = unpacker.decompress(content, _CHUNK)
                yield plain
                # `lzma` and `bz2` keep what they have not unpacked yet.
                rest = getattr(unpacker, "unconsumed_tail", b"")
                content = unpacker.unused_data if unpacker.eof else rest
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        raise tar.damaged(name, "a compressed layer cannot be unpacked") from None
    if not unpacker.eof:
        raise tar.damaged(name, "a compressed layer ends too early")


def _unzstd(chunks: Iterator[bytes], folder: str, most: int, name: str) -> Iterator[bytes]:
    """Yield the bytes that zstd packed: its program unpacks to a file, and writes no more."""
    packed = os.path.join(folder, "packed.zst")
    with open(packed, "wb") as stream:
        stream.writelines(chunks)
        os.fchmod(stream.fileno(), 0o444)  # whatever the umask: a user without rights reads it
    with tempfile.TemporaryFile(dir=folder) as plain:
        ended = foreign_unpack.expand(packed, plain.fileno(), most + 1)
        if os.fstat(plain.fileno()).st_size > most:
            raise _too_large(name, f"more than {most} bytes")
        if ended.fault or ended.code != 0:
            raise tar.damaged(name, "a compressed layer cannot be unpacked")
        plain.seek(0)
        while content := plain.read(_CHUNK):
            yield content


@contextlib.contextmanager
def open_plain(blob: Blob, packed_digest: hashlib._Hash, folder: str) -> Iterator[_Plain]:
    """Open a layer for reading its plain bytes; `folder` is for what must be put aside."""
    most = min(limits.LAYER.bytes, limits.LAYER_RATIO.bytes * blob.size + _FREE_BYTES)
    try:
        with open(blob.path, "rb") as stream:
            head = FileStream(blob.path, stream, blob.offset, blob.size).read(_HEAD_BYTES)
            chunks = _chunks(FileStream(blob.path, stream, blob.offset, blob.size), packed_digest)
            if head[:2] == GZIP:
                chunks = _unpacked(chunks, blob.path, _gzip)
            elif head[:4] == ZSTD:
                chunks = _unzstd(chunks, folder, most, blob.path)
            elif head[:6] == _XZ:
                chunks = _unpacked(chunks, blob.path, _xz)
            elif _BZIP2.match(head):
                chunks = _unpacked(chunks, blob.path, bz2.BZ2Decompressor)
            yield _Plain(blob.path, chunks, most)
    except OSError as error:
        raise files.translate(error, blob.path) from error


def load_layer(blob: Blob) -> tuple[Layer, Content]:
    """Return a layer and its kept content, from the cache where it is there.

    Raises `StackproofError`: DIGEST_MISMATCH, IMAGE_UNREADABLE, TOO_LARGE, UNSUPPORTED, DISK_FULL.
    """
    key = blob.digest or blob.plain_digest or f"sha256:{digest_of(blob)}"
    cache_kinds.in_use()
    place = cache_kinds.home("layers") / key.replace(":", "-")
    found = _cached(place)
    if found is None:
        with cache_folder.alone(place):
            found = _cached(place) or _made(blob, place)
    if found is None:
        raise fail(Reason.BUSY, f"`{place}` is being deleted by somebody", hint="try again")
    return found


def _made(blob: Blob, place: Path) -> tuple[Layer, Content] | None:
    with cache_folder.making(place) as folder:
        _keep(blob, folder)
    cache_folder.prune("layers", _MAX_CACHED_BYTES, keep=place)
    return _cached(place)


def digest_of(blob: Blob) -> str:
    """Return the SHA-256 of a part of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    try:
        with open(blob.path, "rb") as stream:
            for _ in _chunks(FileStream(blob.path, stream, blob.offset, blob.size), digest):
                pass
    except OSError as error:
        raise files.translate(error, blob.path) from error
    return digest.hexdigest()


def _cached(place: Path) -> tuple[Layer, Content] | None:
    """Return a layer of the cache; None when it is not there, or not what was put there."""
    try:
        layer = noun.from_json(Layer, (place / "layer.json").read_bytes())
        content = Content(place / "content")
        whole = os.fstat(content.descriptor).st_size == layer.size
    except (OSError, StackproofError):
        return None
    cache_folder.used(place)
    return (layer, content) if whole else None


def _keep(blob: Blob, folder: Path) -> None:
    """Read a layer once: its entries and what is worth keeping go into a folder."""
    packed = hashlib.sha256()
    members: list[Member] = []
    names = 0
    with (
        tempfile.TemporaryDirectory(dir=folder) as aside,
        open_plain(blob, packed, aside) as stream,
        open(folder / "content", "wb") as content,
    ):
        for entry in tar.entries(stream):
            names += len(entry.name) + len(entry.link)
            if len(members) >= limits.LAYER.count or names > limits.LAYER_NAMES.bytes:
                raise _too_large(blob.path, f"more than {limits.LAYER.count} entries")
            members.append(_member(entry, stream, content))
        digest = stream.finish()
    _verify(blob, f"sha256:{packed.hexdigest()}", digest)
    layer = Layer(members=tuple(members), size=os.path.getsize(folder / "content"))
    files.write(folder / "layer.json", noun.to_json(layer, indent=None))


def _member(entry: tar.ArchiveMember, stream: _Plain, content: BinaryIO) -> Member:
    """Return the entry for the index, with its content kept where a check reads it."""
    offset = -1
    if entry.kind == "file" and entry.size:
        head = stream.read(min(len(MAGIC), entry.size))
        named = entry.name.rpartition("/")[2] in _KEPT or "singularity.d/" in entry.name
        if head == MAGIC or named:
            offset = content.tell()
            content.write(head)
            left = entry.size - len(head)
            while left > 0:
                part = stream.read(min(left, _CHUNK))
                if not part:
                    raise tar.damaged(stream.name, "it ends within a file")
                content.write(part)
                left -= len(part)
    return Member(
        name=_text(entry.name),
        kind=entry.kind,
        link=_text(entry.link),
        mode=entry.mode,
        size=entry.size,
        offset=offset,
    )


def _text(name: str) -> str:
    """Return a name as JSON can hold it; bytes that are no UTF-8 are written as escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _verify(blob: Blob, packed: str, plain_digest: str) -> None:
    """Raise `StackproofError` (DIGEST_MISMATCH) unless a layer is the one that was promised."""
    for promised, digest in ((blob.digest, packed), (blob.plain_digest, plain_digest)):
        if promised.startswith("sha256:") and promised != digest:
            raise fail(
                Reason.DIGEST_MISMATCH,
                f"a layer has the digest {digest}; the image says {promised}",
                where=Location(file=blob.path),
                hint="copy or save the image again",
            )
