"""The SquashFS image format: one compressed read-only file, the same bytes for the same store."""

from __future__ import annotations

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
