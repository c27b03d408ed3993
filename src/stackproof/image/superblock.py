"""The first 96 bytes of a SquashFS image, and whether a file can be one.

Layout: `struct squashfs_super_block` of linux/fs/squashfs/squashfs_fs.h (format 4.0, little
endian). Read before every command of a user, so what only a failure needs is imported then.
"""

from __future__ import annotations

import struct

# --------------------------------------------------------------------------------------------------
# The SquashFS image format: one compressed read-only file, the same bytes for the same store.

# What makes two builds on two days the same file: no build time, one owner, no extended
# attributes (mksquashfs(1)). The order of files is sorted by mksquashfs itself.
_REPRODUCIBLE = ("-all-root", "-no-xattrs", "-mkfs-time", "0", "-all-time", "0")
_WITH_LEVEL = ("zstd", "gzip")

LEVEL = 6
"""That of images and packs that name none; docs/decisions/011-compression.md has the numbers."""


def pack_argv(
    folder: str, image: str, *, compression: str = "zstd", level: int = LEVEL
) -> tuple[str, ...]:
    """Return the call of mksquashfs that packs a folder, with all processors, to the same bytes."""
    options = ("-Xcompression-level", str(level)) if compression in _WITH_LEVEL else ()
    return (
        "mksquashfs", folder, image, "-noappend", "-no-progress", "-quiet", "-comp", compression,
        *options, *_REPRODUCIBLE,
    )  # fmt: skip


TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from stackproof.core.errors import StackproofError

SIZE = 96
MAGIC = b"hsqs"
_SWAPPED_MAGIC = b"sqsh"
_LAYOUT = struct.Struct("<4sIIIIHHHHHHQQ")
_VERSION = (4, 0)
_BLOCK_LOGS = range(12, 21)  # 4 KiB to 1 MiB
_COMPRESSORS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}


class Superblock:
    """What an image says of itself: sizes in bytes, `made` in seconds since 1970."""

    __slots__ = ("block_size", "bytes_used", "compressor", "inodes", "made")

    def __init__(
        self, *, inodes: int, made: int, block_size: int, compressor: str, bytes_used: int
    ) -> None:
        self.inodes = inodes
        self.made = made
        self.block_size = block_size
        self.compressor = compressor
        self.bytes_used = bytes_used

    def data(self) -> dict[str, int | str]:
        """Return it as data, for JSON."""
        return {
            "inodes": self.inodes,
            "made": self.made,
            "block_size": self.block_size,
            "compressor": self.compressor,
            "bytes_used": self.bytes_used,
        }


def parse(head: bytes, *, file_size: int, path: str) -> Superblock:
    """Return the superblock that a file of `file_size` bytes begins with.

    `head` are its first bytes. Raises `StackproofError`: IMAGE_NOT_SQUASHFS, or IMAGE_TRUNCATED
    when the file ends before the image does.
    """
    magic = head[:4]
    if magic == _SWAPPED_MAGIC:
        raise _not(path, "it is a big-endian SquashFS image, which Linux no longer reads")
    if magic != MAGIC:
        raise _not(path, "it is empty" if not head else "it does not begin with `hsqs`")
    if len(head) < SIZE:
        raise _truncated(path, f"it ends after {len(head)} of the {SIZE} bytes of its superblock")
    (
        _, inodes, made, block_size, _, compressor, block_log, _, _, major, minor, _, bytes_used,
    ) = _LAYOUT.unpack_from(head)  # fmt: skip
    if (major, minor) != _VERSION:
        raise _not(path, f"it is of SquashFS version {major}.{minor}, not 4.0")
    if block_log not in _BLOCK_LOGS or block_size != 1 << block_log or bytes_used < SIZE:
        raise _not(path, "its superblock is damaged")
    if compressor not in _COMPRESSORS:
        raise _not(path, f"its compressor {compressor} is not known")
    if file_size < bytes_used:
        raise _truncated(path, f"it has {file_size} of {bytes_used} bytes")
    return Superblock(
        inodes=inodes, made=made, block_size=block_size,
        compressor=_COMPRESSORS[compressor], bytes_used=bytes_used,
    )  # fmt: skip


def _not(path: str, why: str) -> StackproofError:
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    return fail(
        Reason.IMAGE_NOT_SQUASHFS,
        f"`{path}` is not a usable SquashFS image: {why}",
        where=Location(file=path),
        hint="make images with `stackproof build`",
    )


def _truncated(path: str, why: str) -> StackproofError:
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    return fail(
        Reason.IMAGE_TRUNCATED,
        f"image `{path}` is cut off: {why}",
        where=Location(file=path),
        hint="copy or build it again",
    )
