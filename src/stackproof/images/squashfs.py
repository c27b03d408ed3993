"""The SquashFS image format: one compressed read-only file, the same bytes for the same store."""

from __future__ import annotations

from stackproof.command import Command
from stackproof.plan import IMAGE_FILE, OUT, Step

# What makes two builds on two days the same file: no build time, one owner, no extended
# attributes (mksquashfs(1)). The order of files is sorted by mksquashfs itself.
_REPRODUCIBLE = ("-all-root", "-no-xattrs", "-mkfs-time", "0", "-all-time", "0")
_WITH_LEVEL = ("zstd", "gzip")


def pack_step(*, mount: str, compression: str, level: int, inputs: tuple[str, ...] = ()) -> Step:
    """Return the step that packs the store into `plan.IMAGE_FILE`."""
    return Step(
        name="image",
        description=f"pack the store into a SquashFS image ({compression})",
        inputs=inputs,
        commands=(
            Command(
                argv=pack_argv(mount, f"{OUT}/{IMAGE_FILE}", compression=compression, level=level)
            ),
        ),
    )


def pack_argv(
    folder: str, image: str, *, compression: str = "zstd", level: int | None = None
) -> tuple[str, ...]:
    """Return the call of mksquashfs that packs a folder; `level` None is its own default."""
    with_level = level is not None and compression in _WITH_LEVEL
    options = ("-Xcompression-level", str(level)) if with_level else ()
    return (
        "mksquashfs", folder, image, "-noappend", "-no-progress", "-quiet", "-comp", compression,
        *options, *_REPRODUCIBLE,
    )  # fmt: skip
