"""Images on disk as nouns: what a file is and what it says of itself, without mounting it."""

from __future__ import annotations

from stackproof.image import metadata, superblock
from stackproof.image.effects import image_file
from stackproof.image.model import Image
from stackproof.image.superblock import Superblock


def load_image(path: str) -> Image:
    """Return the image in a file; its `path` is absolute, its `sha256` stays empty.

    Raises `StackproofError`: IMAGE_MISSING, IMAGE_UNREADABLE, IMAGE_NOT_SQUASHFS, IMAGE_TRUNCATED,
    IMAGE_NO_META, and TOOL_MISSING without unsquashfs.
    """
    return metadata.image_of(image_file.load_described(path))


def load_superblock(path: str) -> tuple[Superblock, int]:
    """Return the superblock and the size in bytes of an image file; raises like `load_image`."""
    head, size = image_file.load_head(path)
    return superblock.parse(head, file_size=size, path=path), size


def read_member(path: str, member: str) -> str:
    """Return the text of a file inside an image, empty when there is none.

    `member` is relative to the image's root and may have shell wildcards; the files they match
    come one after another. Raises `StackproofError` (IMAGE_UNREADABLE, TOOL_MISSING).
    """
    return image_file.read_member(path, member).decode(errors="replace")
