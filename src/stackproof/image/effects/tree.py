"""Trees of images: unpacked, used in a plain folder without a mount, and their digests.

What an image says names paths below the mount point that it was built for; in a folder they are
paths of the folder. That is enough for software that finds itself by variables, as the MPI
developers' wheels do; other software must lie where it was built for.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from stackproof.core import limits, noun
from stackproof.core.command import EnvPatch
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.links import LinkRules
from stackproof.core.value import replace
from stackproof.image import metadata
from stackproof.image.effects import image_file, tree_digest
from stackproof.image.model import NOT_IN_TREE, TREE_RECORD, Image, TreeDigest, View


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


def load_tree(folder: str) -> Image:
    """Return the image whose tree a folder holds, with the folder as its `path` and `mount`.

    Raises `StackproofError` (IMAGE_NO_META) and what reading files raises.
    """
    place = os.path.abspath(folder)
    text = read_tree_member(place, metadata.META)
    if not text:
        raise fail(
            Reason.IMAGE_NO_META,
            f"the folder `{folder}` has no `{metadata.META}`",
            where=Location(file=folder),
            hint="unpack an image that `stackproof build` made, for example with `unsquashfs -d`",
        )
    image = metadata.parse_env_json(text, path=place, size=0)
    return relocated(replace(image, sha256=of_folder(place, ()).sha256), place)


def relocated(image: Image, folder: str) -> Image:
    """Return an image with its mount point replaced by a folder, in every path it names."""
    old = image.mount

    def move(text: str) -> str:
        return folder + text[len(old) :] if text == old or text.startswith(f"{old}/") else text

    def patch(env: EnvPatch) -> EnvPatch:
        return EnvPatch(
            set={name: ":".join(map(move, value.split(":"))) for name, value in env.set.items()},
            unset=env.unset,
            prepend={name: tuple(map(move, entries)) for name, entries in env.prepend.items()},
            append={name: tuple(map(move, entries)) for name, entries in env.append.items()},
        )

    def view(one: View) -> View:
        return replace(one, root=move(one.root), env=patch(one.env))

    return replace(
        image,
        mount=folder,
        views={name: view(one) for name, one in image.views.items()},
        mpi=image.mpi and replace(image.mpi, prefix=move(image.mpi.prefix)),
        benchmarks=tuple(replace(one, path=move(one.path)) for one in image.benchmarks),
    )


def read_tree_member(folder: str, member: str) -> str:
    """Return the text of a file of the tree, empty when there is none."""
    try:
        content = files.read_bounded(os.path.join(folder, member), limits.IMAGE_MEMBER)
    except StackproofError as error:
        if error.reason is Reason.FILE_MISSING:
            return ""
        raise
    return content.decode(errors="replace")
