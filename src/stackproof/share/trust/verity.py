"""What fs-verity of Linux measures of a file: the root of a tree of SHA-256 digests.

Where the file system has it, the kernel tells the measure of a file in no time, and holds every
read to it from then on. Blocks of 4096 bytes and no salt, as fsverity(1) has it when nothing is
said; the format is that of Documentation/filesystems/fsverity.rst.
"""

from __future__ import annotations

import hashlib
import struct

BLOCK = 4096
_SHA256_OF_LINUX = 1
_LOG_BLOCK = 12
_DIGEST = 32


class VerityMeasure:
    """The measure of a file that comes in pieces, and its SHA-256, in one reading of it."""

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._levels: list[bytearray] = []
        self._rest = b""
        self._size = 0

    def update(self, piece: bytes | memoryview) -> None:
        """Take the next piece of the file."""
        self._whole.update(piece)
        self._size += len(piece)
        data = self._rest + bytes(piece)
        end = len(data) - len(data) % BLOCK
        for at in range(0, end, BLOCK):
            self._put(0, data[at : at + BLOCK])
        self._rest = data[end:]

    def _put(self, level: int, block: bytes) -> None:
        """Add the digest of a block to a level; a level that fills a block goes one up."""
        if level == len(self._levels):
            self._levels.append(bytearray())
        row = self._levels[level]
        if len(row) == BLOCK:
            self._put(level + 1, bytes(row))
            row.clear()
        row += hashlib.sha256(block).digest()

    @property
    def size(self) -> int:
        """Return the size so far, in bytes."""
        return self._size

    def sha256(self) -> str:
        """Return the SHA-256 of the file."""
        return self._whole.hexdigest()

    def verity(self) -> str:
        """Return the digest that the kernel measures of the file; call it once, at the end."""
        if self._rest:
            self._put(0, self._rest.ljust(BLOCK, b"\0"))
            self._rest = b""
        descriptor = struct.pack(
            "<BBBBIQ64s32s144x",
            1,
            _SHA256_OF_LINUX,
            _LOG_BLOCK,
            0,
            0,
            self._size,
            self._root(),
            b"",
        )
        return hashlib.sha256(descriptor).hexdigest()

    def _root(self) -> bytes:
        level = 0
        while level < len(self._levels):
            row = bytes(self._levels[level])
            if level == len(self._levels) - 1 and len(row) == _DIGEST:
                return row
            self._put(level + 1, row.ljust(BLOCK, b"\0"))
            level += 1
        return b""  # an empty file has no tree
