"""Digests of trees: of a folder, of what a SquashFS image holds, and the one that it records."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from stackproof.core import noun
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.links import LinkRules
from stackproof.image.effects import image_file, tree_digest
from stackproof.image.model import NOT_IN_TREE, TREE_RECORD, TreeDigest


def of_folder(folder: str | os.PathLike[str], without: tuple[str, ...] = NOT_IN_TREE) -> TreeDigest:
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
    text = image_file.read_member(image, TREE_RECORD)
    return noun.from_json(TreeDigest, text, file=f"{image}: {TREE_RECORD}") if text else None


def of_image(image: str, without: tuple[str, ...] = NOT_IN_TREE) -> TreeDigest:
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
        unpack(image, target).close()
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
    found = of_image(image, record.without if record else NOT_IN_TREE)
    for origin, digest in (("recorded", record.sha256 if record else ""), ("wanted  ", wanted)):
        if digest and digest != found.sha256:
            raise fail(
                Reason.IMAGE_DAMAGED,
                f"the tree of `{image}` is another one",
                detail=f"{origin} {digest}\nfound    {found.sha256}",
                where=Location(file=image),
                hint="copy or build it again",
            )
    return found


def unpack(image: str, target: Path, mount: str = "") -> ForeignTree:
    """Unpack an image into a folder that is not there yet, or is empty; return it, open.

    It holds regular files, folders and links of the caller, with permission bits alone, and no
    relative link that climbs out of it. Absolute links below `mount` are inside, others lead
    elsewhere: the tree's methods refuse these.

    Raises `StackproofError`: DISK_FULL, IMAGE_UNREADABLE, NOT_PERMITTED, TOO_LARGE, TOOL_MISSING.
    """
    return foreign_unpack.unpack(
        Packed(path=image), target, UnpackRules(links=LinkRules(root=mount))
    )
