"""Images on disk: what a file is and what it says of itself, without mounting it.

Nothing beside the file is believed: a folder `meta/` next to an image is not the image's.
"""

from __future__ import annotations

import os
import stat

from stackproof.command import Command
from stackproof.errors import Location, Reason, fail
from stackproof.host.run import run
from stackproof.image import Image
from stackproof.images import metadata, superblock
from stackproof.images.superblock import Superblock

_TIMEOUT_S = 60.0
_MAX_MEMBER_BYTES = 16 << 20
_UNSQUASHFS_NOT_FOUND = 2  # unsquashfs(1): 1 is a fatal error, 2 is a file that it could not write
_FIELD_OF_SIZE = 2  # of a line of `unsquashfs -lls`: mode, owner, size, date, time, path


def load_image(path: str) -> Image:
    """Return the image in a file; its `path` is absolute, its `sha256` stays empty.

    Raises `StackproofError`: IMAGE_MISSING, IMAGE_UNREADABLE, IMAGE_NOT_SQUASHFS, IMAGE_TRUNCATED,
    IMAGE_NO_META, and TOOL_MISSING without unsquashfs.
    """
    _, size = load_superblock(path)
    text = _member(path, metadata.META)
    if not text:
        raise fail(
            Reason.IMAGE_NO_META,
            f"image `{path}` has no `{metadata.META}`, so nothing tells where it must be mounted",
            where=Location(file=path),
            hint="make images with `stackproof build`",
        )
    return metadata.parse_env_json(text, path=os.path.abspath(path), size=size)


def load_superblock(path: str) -> tuple[Superblock, int]:
    """Return the superblock and the size in bytes of an image file; raises like `load_image`."""
    try:
        # Without O_NONBLOCK a FIFO in place of an image would hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            state = os.fstat(descriptor)
            regular = stat.S_ISREG(state.st_mode)
            head = os.pread(descriptor, superblock.SIZE, 0) if regular else b""
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        raise fail(
            Reason.IMAGE_MISSING,
            f"there is no image `{path}`",
            where=Location(file=path),
            hint="make one with `stackproof build`",
        ) from None
    except (OSError, ValueError) as error:
        raise fail(
            Reason.IMAGE_UNREADABLE,
            f"cannot read image `{path}`: {getattr(error, 'strerror', None) or error}",
            where=Location(file=path),
            hint="make the file readable for you",
        ) from None
    if not regular:
        raise fail(
            Reason.IMAGE_NOT_SQUASHFS,
            f"`{path}` is not a regular file",
            where=Location(file=path),
            hint="an image is one file, as `stackproof build` makes it",
        )
    return superblock.parse(head, file_size=state.st_size, path=path), state.st_size


def read_member(path: str, member: str) -> str:
    """Return the text of a file inside an image, empty when there is none.

    `member` is relative to the image's root and may have shell wildcards; the files they match
    come one after another. Raises `StackproofError` (IMAGE_UNREADABLE, TOOL_MISSING).
    """
    return _member(path, member).decode(errors="replace")


def _member(path: str, member: str) -> bytes:
    if _member_size(path, member) > _MAX_MEMBER_BYTES:
        raise fail(
            Reason.IMAGE_UNREADABLE,
            f"`{member}` of image `{path}` is larger than {_MAX_MEMBER_BYTES} bytes",
            where=Location(file=path),
            hint="this is not an image that `stackproof build` made",
        )
    return _unsquashfs(path, "-cat", member)


def _member_size(path: str, member: str) -> int:
    """Return the bytes of the files that match, so that a bomb is not unpacked to see its size."""
    lines = _unsquashfs(path, "-lls", member).decode(errors="replace").splitlines()
    fields = [line.split() for line in lines if line.startswith("-")]
    return sum(int(words[_FIELD_OF_SIZE]) for words in fields if len(words) > _FIELD_OF_SIZE)


def _unsquashfs(path: str, action: str, member: str) -> bytes:
    # An absolute path cannot be taken for an option.
    argv = ("unsquashfs", "-processors", "1", action, os.path.abspath(path), member)
    done = run(Command(argv=argv, timeout_s=_TIMEOUT_S))
    if done.returncode == 0:
        return done.stdout
    if done.returncode == _UNSQUASHFS_NOT_FOUND:
        return b""
    said = done.stderr.decode(errors="replace").strip()
    raise fail(
        Reason.IMAGE_UNREADABLE,
        f"`{member}` of image `{path}` cannot be read",
        where=Location(file=path),
        detail=said or None,
        hint="the image is damaged: copy or build it again",
    )
