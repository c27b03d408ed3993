"""Digests of trees: of a folder, of what a SquashFS image holds, and the one that it records."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stackproof.core import noun
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.links import LinkRules
from stackproof.image.effects import image_file
from stackproof.image.model import NOT_IN_TREE, TREE_RECORD, TreeDigest

# --------------------------------------------------------------------------------------------------
# One digest of all that programs see in a tree, whatever packed it; also a program of builds.
#
#     python -I -S tree_digest.py FOLDER RECORD [LEFT_OUT …]
#
# Writes what a tree says of itself (`image.model.TreeDigest`, as JSON). What is hashed, byte for
# byte, is in docs/explanation/tree-digest.md; tests/image/test_tree.py has it written out.
#
# Builds run it inside of their sandbox, so it imports next to nothing.

SCHEMA = "stackproof/tree/1"
_KINDS = {
    stat.S_IFDIR: b"d",
    stat.S_IFREG: b"f",
    stat.S_IFLNK: b"l",
    stat.S_IFIFO: b"p",
    stat.S_IFSOCK: b"s",
    stat.S_IFCHR: b"c",
    stat.S_IFBLK: b"b",
}
_PERMISSIONS = 0o1777  # no mount obeys set-id bits, and what a user unpacks has none


def tree_digest(folder: str, without: tuple[str, ...] = ()) -> str:
    """Return the digest of a tree; `without` are names at its root that do not count.

    Raises `OSError` for what cannot be read.
    """
    total = hashlib.sha256()
    total.update(_record(SCHEMA.encode(), b"", b"", b""))
    root = os.fsencode(folder)
    left_out = {os.fsencode(name) for name in without}
    for path in sorted([*left_out, *_paths(root, left_out)]):
        if path in left_out:
            total.update(_record(b"-", b"", b"", path))
        else:
            total.update(_record(*_described(os.path.join(root, path)), path))
    return total.hexdigest()


def _paths(root: bytes, left_out: set[bytes]) -> Iterator[bytes]:
    def refuse(error: OSError) -> None:
        raise error

    for inner, folders, names in os.walk(root, onerror=refuse):
        if inner == root:
            folders[:] = (name for name in folders if name not in left_out)
        found = (os.path.relpath(os.path.join(inner, name), root) for name in (*folders, *names))
        yield from (path for path in found if path not in left_out)


def _described(path: bytes) -> tuple[bytes, bytes, bytes]:
    """Return kind, mode and content of what lies at a path."""
    state = os.lstat(path)
    kind, mode = _KINDS[stat.S_IFMT(state.st_mode)], b"%04o" % (state.st_mode & _PERMISSIONS)
    if kind == b"l":
        return kind, b"", os.readlink(path)
    if kind != b"f":
        return kind, mode, b""
    with open(path, "rb") as stream:
        return kind, mode, hashlib.file_digest(stream, "sha256").hexdigest().encode()


def _record(*fields: bytes) -> bytes:
    return b"".join(field + b"\0" for field in fields)


def main(folder: str, record: str, *without: str) -> None:
    """Write the digest of a tree, as an image records it, to the file `record`."""
    sha256 = tree_digest(folder, without)
    data = {"schema": SCHEMA, "sha256": sha256, "without": sorted(without)}
    os.makedirs(os.path.dirname(record), exist_ok=True)
    with open(record, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])


def of_folder(folder: str | os.PathLike[str], without: tuple[str, ...] = NOT_IN_TREE) -> TreeDigest:
    """Return the digest of a tree in a folder; raises `StackproofError` as reading files does."""
    try:
        sha256 = tree_digest(os.fspath(folder), without)
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
