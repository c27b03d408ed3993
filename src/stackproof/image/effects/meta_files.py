"""The folder `meta` of an image beside it, as uenv has it: plain content, and nothing else of it.

Neither owner, mode nor link of the image is taken over; stackproof believes the one in the image
alone.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import Value

FOLDER = "meta"


class MetaFiles(Value):
    """The content of a folder `meta`: its files, and folders, by their paths from `meta` on."""

    files: Mapping[str, bytes]
    folders: tuple[str, ...]


def read(image: str, aside: Path | None = None) -> MetaFiles | None:
    """Return the folder `meta` of an image, unpacked for the time in a folder, by default TMPDIR.

    None for one with other than plain files, and for one that is larger than a member may be.
    Raises `StackproofError`: TOOL_MISSING, DISK_FULL, FILE_MISSING.
    """
    most = limits.IMAGE_MEMBER
    rules = UnpackRules(seconds=most.seconds, file_bytes=most.bytes, most=limits.META)
    packed = Packed(path=image, member=FOLDER, processors=1)
    with tempfile.TemporaryDirectory(prefix="stackproof-meta-", dir=aside) as place:
        try:
            with foreign_unpack.unpack(packed, Path(place, "tree"), rules) as tree:
                return _read(tree)
        except StackproofError as error:
            if error.reason in {Reason.IMAGE_UNREADABLE, Reason.TOO_LARGE}:
                return None
            raise


def _read(tree: ForeignTree) -> MetaFiles | None:
    if not tree.is_folder(FOLDER, follow=False):
        return None
    files: dict[str, bytes] = {}
    folders = []
    left = limits.IMAGE_MEMBER.bytes
    for path, state in tree.walk(FOLDER):
        if stat.S_ISDIR(state.st_mode):
            folders.append(path)
        elif stat.S_ISREG(state.st_mode) and state.st_size <= left:
            files[path] = tree.read(path, limits.IMAGE_MEMBER)
            left -= len(files[path])
        else:
            return None
    return MetaFiles(files=files, folders=tuple(folders))


def write(meta: MetaFiles, folder: Path) -> None:
    """Write a folder `meta` into a folder, for everybody to read; raises as `ForeignTree` does."""
    with ForeignTree.at(folder) as tree:
        tree.make_folder(FOLDER)
        for path in meta.folders:
            tree.make_folder(path)
        for path, content in meta.files.items():
            tree.write(path, content)


def unpack(image: str, folder: Path) -> None:
    """Put the folder `meta` of an image into a folder, if it is one that `read` returns.

    It is unpacked there, so that whoever clears up after a stop of this clears that too.
    """
    meta = read(image, folder)
    if meta is not None:
        write(meta, folder)
