"""Files cut where their content says so, so that what two have in common has the same cuts in both.

A cut comes after each byte where a rolling sum of the last 32 begins with 18 zeros, at least 64 KiB
and at most 1 MiB after the one before: 256 KiB on average ("FastCDC", Xia et al., USENIX ATC 2016,
whose gear table is used; without its normalising). mksquashfs writes the same bytes for the same
files in the same order, so an update of one component leaves most chunks of an image as they were.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping

from stackproof.core.value import Value

ARTEFACT = "application/vnd.stackproof.chunks.v1"
"""The type of the list of an image's chunks, which is attached to it."""
LEAST, MOST = 64 << 10, 1 << 20
WORTH = 4 << 20
"""Smaller images have no list: they come as a whole sooner."""
_ZEROS = 18
_WINDOW = 32
_MAGIC = b"spchunk1"
_ENTRY = struct.Struct("<I32s")


class Chunk(Value):
    """A part of a file: where it begins, how long it is, and its SHA-256."""

    begin: int
    length: int
    digest: bytes


class SourcePart(Value):
    """A part of a file that is being made: of a local file from `at` on, or of the network."""

    begin: int
    end: int
    path: str = ""
    at: int = 0


@functools.cache
def _gear() -> tuple[int, ...]:
    """Return a number for each byte, the same everywhere."""
    words = (hashlib.sha256(bytes([number])).digest()[:4] for number in range(256))
    return tuple(int.from_bytes(word, "little") for word in words)


def cut(blocks: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the beginnings and lengths of a file's chunks, in bytes; its bytes come in blocks."""
    begin, at, before = 0, 0, b""
    for block in blocks:
        for end in _candidates(before + block, len(before), at):
            while end - begin > MOST:
                yield begin, MOST
                begin += MOST
            if end - begin >= LEAST:
                yield begin, end - begin
                begin = end
        at += len(block)
        before = (before + block)[-(_WINDOW - 1) :]
    while at - begin > MOST:
        yield begin, MOST
        begin += MOST
    if at > begin:
        yield begin, at - begin


def _candidates(content: bytes, old: int, at: int) -> list[int]:
    """Return the ends of chunks in a block at a place, which has `old` bytes of the one before."""
    import numpy as np  # noqa: PLC0415 - slow to import, and most verbs need no chunks

    gear = np.array(_gear(), dtype=np.uint32)
    sums = gear[np.frombuffer(content, dtype=np.uint8)]
    step = 1
    while step < _WINDOW:  # each round doubles how many bytes a sum is of
        sums[step:] += sums[:-step] << np.uint32(step)
        step *= 2
    found = np.flatnonzero(sums >> np.uint32(32 - _ZEROS) == 0)
    return [int(one) - old + 1 + at for one in found if one >= old]


def render(chunks: Iterable[Chunk]) -> bytes:
    """Return a list of chunks, one after another from the first byte on, as a file."""
    return _MAGIC + b"".join(_ENTRY.pack(one.length, one.digest) for one in chunks)


def most_bytes(size: int) -> int:
    """Return the most bytes that the list of a file of a size has."""
    return len(_MAGIC) + _ENTRY.size * (size // LEAST + 1)


def parse(content: bytes, size: int) -> tuple[Chunk, ...]:
    """Return the chunks of a list for a file of a size; none where it is no list of that."""
    if not content.startswith(_MAGIC) or (len(content) - len(_MAGIC)) % _ENTRY.size:
        return ()
    found, begin = [], 0
    for length, digest in _ENTRY.iter_unpack(content[len(_MAGIC) :]):
        found.append(Chunk(begin=begin, length=length, digest=digest))
        begin += length
    fine = begin == size and all(0 < one.length <= MOST for one in found)
    fine = fine and all(one.length >= LEAST for one in found[:-1])
    return tuple(found) if fine else ()


def plan(
    wanted: Iterable[Chunk], known: Mapping[bytes, tuple[str, Chunk]]
) -> tuple[SourcePart, ...]:
    """Return from where each part of a file comes, neighbours of one source as one."""
    found: list[SourcePart] = []
    for one in wanted:
        path, there = known.get(one.digest, ("", one))
        if there.length != one.length:
            path = ""
        at = there.begin if path else 0
        last = found[-1] if found else None
        end = one.begin + one.length
        goes_on = last is not None and last.path == path
        if last is not None and goes_on and (not path or last.at + last.end - last.begin == at):
            found[-1] = SourcePart(begin=last.begin, end=end, path=path, at=last.at)
        else:
            found.append(SourcePart(begin=one.begin, end=end, path=path, at=at))
    return tuple(found)
