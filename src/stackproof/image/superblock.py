"""The first bytes of a SquashFS image as a noun; `header` reads them."""

from __future__ import annotations

from dataclasses import dataclass

from stackproof.image import header

SIZE = header.SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Superblock:
    """What an image says of itself: sizes in bytes, `made` in seconds since 1970."""

    inodes: int
    made: int
    block_size: int
    compressor: str
    bytes_used: int


def parse(head: bytes, *, file_size: int, path: str) -> Superblock:
    """Return the superblock that a file of `file_size` bytes begins with.

    Raises `StackproofError`: IMAGE_NOT_SQUASHFS, or IMAGE_TRUNCATED when the file ends before the
    image does.
    """
    inodes, made, block_size, compressor, bytes_used = header.fields(
        head, file_size=file_size, path=path
    )
    return Superblock(
        inodes=inodes,
        made=made,
        block_size=block_size,
        compressor=compressor,
        bytes_used=bytes_used,
    )
