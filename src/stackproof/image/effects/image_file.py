"""What an image says of itself, read from the file without mounting it.

Nothing beside the file is believed: a folder `meta/` next to an image is not the image's.

This runs before every job of a user, so it imports little.
"""

from __future__ import annotations

import os
import stat

from stackproof.core import limits
from stackproof.core.effects.foreign import squash
from stackproof.core.effects.foreign.parser import Bounds, StartError
from stackproof.image import described, superblock

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from stackproof.core.errors import StackproofError
    from stackproof.image.described import Described
    from stackproof.image.model import Image
    from stackproof.image.superblock import Superblock


def load_described(path: str, *, bare: bool = False) -> Described:
    """Return the facts of an image, with its absolute path; `bare`: it may have none.

    Raises `StackproofError`: IMAGE_MISSING, IMAGE_UNREADABLE, IMAGE_NOT_SQUASHFS, IMAGE_TRUNCATED,
    IMAGE_NO_META, and TOOL_MISSING without unsquashfs.
    """
    _, size = load_superblock(path)
    text = read_member(path, described.META)
    if not text and bare:
        return described.silent(os.path.abspath(path), size)
    if not text:
        raise _failure(
            "image-no-meta",
            f"image `{path}` has no `{described.META}`, so nothing tells where it must be mounted",
            path,
            "make images with `stackproof build`",
        )
    return described.parse(text, path=os.path.abspath(path), size=size)


def load_image(path: str) -> Image:
    """Return the image in a file as a noun; its `sha256` stays empty. Raises as above."""
    from stackproof.image import metadata  # noqa: PLC0415 - slow, and jobs need no noun

    return metadata.image_of(load_described(path))


def load_superblock(path: str) -> tuple[Superblock, int]:
    """Return the superblock and the size in bytes of an image file; raises as above."""
    head, size = load_head(path)
    return superblock.parse(head, file_size=size, path=path), size


def load_head(path: str) -> tuple[bytes, int]:
    """Return the first bytes of an image file, and its size in bytes; raises as above."""
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
        hint = "make one with `stackproof build`; `stackproof image ls` lists labels"
        raise _failure("image-missing", f"there is no image `{path}`", path, hint) from None
    except (OSError, ValueError) as error:
        from stackproof.core.effects import closed  # noqa: PLC0415 - for failures only

        why = getattr(error, "strerror", None) or error
        hint = closed.hint_at_closed(path) or "make the file readable for you"
        text = f"cannot read image `{path}`: {why}"
        raise _failure("image-unreadable", text, path, hint) from None
    if not head.startswith(b"hsqs"):
        from stackproof.core.effects import documents  # noqa: PLC0415 - slow, and only for others
        from stackproof.core.errors import Reason  # noqa: PLC0415 - as above

        documents.refuse_other_kind(path, "image", Reason.IMAGE_NOT_SQUASHFS)
    if not regular:
        hint = "an image is one file, as `stackproof build` makes it"
        text = f"`{path}` is not a regular file"
        raise _failure("image-not-squashfs", text, path, hint)
    return head, state.st_size


def read_member(path: str, member: str) -> bytes:
    """Return the bytes of a file inside an image, nothing when there is none.

    `member` is relative to the image's root and may have shell wildcards; the files they match
    come one after another. Raises `StackproofError` (IMAGE_UNREADABLE, TOOL_MISSING), also for more
    than `limits.IMAGE_MEMBER.bytes`: no more than that is ever read.
    """
    most = limits.IMAGE_MEMBER
    try:
        ended = squash.read(path, member, Bounds(seconds=most.seconds, output=most.bytes))
    except OSError as error:
        raise _not_started(path, error) from None
    if not ended.fault and ended.code in {0, squash.NOT_THERE}:
        return ended.output if ended.code == 0 else b""
    text = f"`{member}` of image `{path}` cannot be read"
    hint = "the image is damaged: copy or build it again"
    if ended.fault == "size" and len(ended.output) > most.bytes:
        text = f"`{member}` of image `{path}` is larger than {most.bytes} bytes"
        hint = "this is not an image that `stackproof build` made"
    raise _failure("image-unreadable", text, path, hint, detail=ended.said() or None)


def _not_started(path: str, error: OSError) -> StackproofError:
    from stackproof.core.effects import files  # noqa: PLC0415 - see above
    from stackproof.core.effects.foreign import unpack  # noqa: PLC0415

    if isinstance(error, StartError):
        return unpack.not_started(error)
    return files.translate(error, path)


def _failure(
    reason: str, message: str, path: str, hint: str, *, detail: str | None = None
) -> StackproofError:
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    return fail(Reason(reason), message, where=Location(file=path), hint=hint, detail=detail)
