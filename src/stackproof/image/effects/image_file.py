"""What an image says of itself, read from the file without mounting it.

Nothing beside the file is believed: a folder `meta/` next to an image is not the image's.

This runs before every job of a user, so it imports little, and starts unsquashfs itself rather than
through `core.effects.run`, which would take several times longer to import than unsquashfs takes to
run.
"""

from __future__ import annotations

import os
import select
import stat
import time

from stackproof.core import limits
from stackproof.image import described, superblock

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from stackproof.core.errors import StackproofError
    from stackproof.image.described import Described

_PROGRAM = "unsquashfs"
_SIGKILL = 9
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE, SIGXFSZ
_NOT_FOUND = 2  # unsquashfs(1): 1 is a fatal error, 2 is a file that it could not write
_CHUNK = 1 << 16


def can_read() -> bool:
    """Say whether this machine has unsquashfs, without which no image can be read here."""
    folders = os.environ.get("PATH", os.defpath).split(":")
    return any(os.access(f"{folder}/{_PROGRAM}", os.X_OK) for folder in folders)


def load_described(path: str, *, bare: bool = False) -> Described:
    """Return what an image says of itself, with its absolute path; `bare`: it may say nothing.

    Raises `StackproofError`: IMAGE_MISSING, IMAGE_UNREADABLE, IMAGE_NOT_SQUASHFS, IMAGE_TRUNCATED,
    IMAGE_NO_META, and TOOL_MISSING without unsquashfs.
    """
    head, size = load_head(path)
    superblock.parse(head, file_size=size, path=path)
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
        hint = "make one with `stackproof build`"
        raise _failure("image-missing", f"there is no image `{path}`", path, hint) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        hint = "make the file readable for you"
        text = f"cannot read image `{path}`: {why}"
        raise _failure("image-unreadable", text, path, hint) from None
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
    # An absolute path cannot be taken for an option.
    argv = (_PROGRAM, "-processors", "1", "-cat", os.path.abspath(path), member)
    complaints = os.memfd_create("unsquashfs", os.MFD_CLOEXEC)
    try:
        child, output = _start(argv, complaints)
        found, whole = b"", False
        try:
            found, whole = _read(output)
        finally:
            os.close(output)
            if not whole:
                os.kill(child, _SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = os.pread(complaints, _CHUNK, 0).decode(errors="replace").strip()
    finally:
        os.close(complaints)
    if whole and code in {0, _NOT_FOUND}:
        return found if code == 0 else b""
    if len(found) > limits.IMAGE_MEMBER.bytes:
        text = f"`{member}` of image `{path}` is larger than {limits.IMAGE_MEMBER.bytes} bytes"
        hint = "this is not an image that `stackproof build` made"
        raise _failure("image-unreadable", text, path, hint)
    text = f"`{member}` of image `{path}` cannot be read"
    hint = "the image is damaged: copy or build it again"
    raise _failure("image-unreadable", text, path, hint, detail=said or None)


def _start(argv: tuple[str, ...], complaints: int) -> tuple[int, int]:
    """Return the process and the descriptor from which its output is read."""
    output, end = os.pipe()
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    files = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, end, 1),
        (os.POSIX_SPAWN_DUP2, complaints, 2),
    )
    try:
        environment = {**kept, "LANG": "C.UTF-8"}
        child = os.posix_spawnp(
            argv[0], argv, environment, file_actions=files, setsigdef=_IGNORED_BY_PYTHON
        )
    except OSError as error:
        os.close(output)
        raise _not_started(argv[0], error) from None
    finally:
        os.close(end)
    return child, output


def _read(output: int) -> tuple[bytes, bool]:
    """Return what comes, and whether that is all and not too much, in time."""
    end = time.monotonic() + limits.IMAGE_MEMBER.seconds
    found = bytearray()
    while len(found) <= limits.IMAGE_MEMBER.bytes and time.monotonic() < end:
        if not select.select([output], [], [], end - time.monotonic())[0]:
            break
        chunk = os.read(output, _CHUNK)
        if not chunk:
            return bytes(found), True
        found += chunk
    return bytes(found), False


def _not_started(program: str, error: OSError) -> StackproofError:
    from stackproof.core.effects import sandbox  # noqa: PLC0415
    from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

    return fail(
        Reason.TOOL_MISSING,
        f"cannot run `{program}`: {error.strerror}",
        hint=sandbox.package_hint(program),
    )


def _failure(
    reason: str, message: str, path: str, hint: str, *, detail: str | None = None
) -> StackproofError:
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    return fail(Reason(reason), message, where=Location(file=path), hint=hint, detail=detail)
