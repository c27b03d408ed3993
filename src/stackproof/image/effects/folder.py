"""An image's tree in a plain folder, used where it lies: what it says of itself, without a mount.

What an image says names paths below the mount point that it was built for. Here they are paths of
the folder. That is enough for software that finds itself by variables, as the MPI developers'
wheels do; other software must lie where it was built for.
"""

from __future__ import annotations

import os

from stackproof.core import limits
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.image import metadata
from stackproof.image.effects import tree_digest
from stackproof.image.model import Image, View


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
    try:
        sha256 = tree_digest.tree_digest(place)
    except OSError as error:
        raise files.translate(error, error.filename or place) from error
    return relocated(replace(image, sha256=sha256), place)


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
