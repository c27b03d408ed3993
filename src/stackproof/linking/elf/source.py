"""Bytes of a file, by offset; whoever opens the file gives them to the reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Source(Protocol):
    """A file that is read in pieces."""

    @property
    def name(self) -> str:
        """Return what messages call the file."""

    @property
    def size(self) -> int:
        """Return its size in bytes."""

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`, fewer at the end of the file."""


@dataclass(frozen=True, slots=True)
class BytesSource:
    """A file that is in memory."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        return len(self.content)

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`, fewer at the end."""
        return self.content[offset : offset + count]
