"""Digests of trees: of a folder, of what a SquashFS image holds, and the one that it records."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from stackproof.core import limits, noun
from stackproof.core.command import Command
from stackproof.core.effects import cache_kinds, files, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.effects import image_file, tree_digest
from stackproof.image.model import TreeDigest
from stackproof.image.tree import RECORD, WITHOUT


def of_folder(folder: str | os.PathLike[str], without: tuple[str, ...] = WITHOUT) -> TreeDigest:
    """Return the digest of a tree in a folder; raises `StackproofError` as reading files does."""
    try:
        sha256 = tree_digest.tree_digest(os.fspath(folder), without)
    except OSError as error:
        raise files.translate(error, error.filename or folder) from error
    return TreeDigest(sha256=sha256, without=tuple(sorted(without)))


def recorded(image: str) -> TreeDigest | None:
    """Return the digest that an image has of its own tree; None where it has none.

    Raises `StackproofError` as `image_file.read_member` does, and what `noun.from_json` raises.
    """
    text = image_file.read_member(image, RECORD)
    return noun.from_json(TreeDigest, text, file=f"{image}: {RECORD}") if text else None


def of_image(image: str, without: tuple[str, ...] = WITHOUT) -> TreeDigest:
    """Return the digest of what an image holds; it is unpacked for that, into the cache.

    Raises `StackproofError` as `unpack` and `of_folder` do.
    """
    cache_kinds.in_use()
    home = cache_kinds.home("trees")
    folder = ""
    try:
        home.mkdir(parents=True, exist_ok=True)
        # What an interrupted command leaves behind is deleted by its name.
        folder = tempfile.mkdtemp(dir=home, prefix=".digest.")
        target = Path(folder, "tree")
        unpack(image, target)
        return of_folder(target, without)
    except OSError as error:
        raise files.translate(error, home) from error
    finally:
        if folder:
            files.remove(folder)


def verified(image: str, wanted: str = "") -> TreeDigest:
    """Return the digest of what an image holds if it is as recorded, or the `wanted` one.

    Raises `StackproofError`: IMAGE_DAMAGED, IMAGE_NO_META where nothing is recorded, and as above.
    """
    record = recorded(image)
    if record is None and not wanted:
        raise fail(
            Reason.IMAGE_NO_META,
            f"image `{image}` records no digest of its tree",
            where=Location(file=image),
            hint="name the one that it is to have",
        )
    found = of_image(image, record.without if record else WITHOUT)
    for origin, digest in (("recorded", record.sha256 if record else ""), ("wanted  ", wanted)):
        if digest and digest != found.sha256:
            raise _differs(image, f"{origin} {digest}\nfound    {found.sha256}")
    return found


def _differs(image: str, detail: str) -> StackproofError:
    return fail(
        Reason.IMAGE_DAMAGED,
        f"the tree of `{image}` is another one",
        detail=detail,
        where=Location(file=image),
        hint="copy or build it again",
    )


def unpack(image: str, target: Path) -> None:
    """Unpack an image into a folder that is not there yet.

    Raises `StackproofError`: DISK_FULL, IMAGE_UNREADABLE, NOT_PERMITTED, TOOL_MISSING.
    """
    argv = ("unsquashfs", "-q", "-n", "-no-xattrs", "-d", str(target), os.path.abspath(image))
    # To a user's unsquashfs the umask counts, and modes are to be the image's.
    mask = os.umask(0)
    try:
        done = run.run(Command(argv=argv, timeout_s=limits.UNPACKED.seconds))
    finally:
        os.umask(mask)
    if done.returncode != 0:
        if b"not superuser" in done.stderr:
            raise fail(
                Reason.NOT_PERMITTED,
                f"image `{image}` holds devices, which only root can unpack",
                where=Location(file=image),
                hint="run this as root",
            )
        full = b"No space left" in done.stderr
        raise fail(
            Reason.DISK_FULL if full else Reason.IMAGE_UNREADABLE,
            f"image `{image}` cannot be unpacked",
            where=Location(file=image),
            hint=f"free space for `{target}`"
            if full
            else "the image is damaged: copy or build it again",
            detail=done.stderr.decode(errors="replace")[-2000:] or None,
        )
