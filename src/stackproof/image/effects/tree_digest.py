"""One digest of all that programs see in a tree, whatever packed it; also a program of builds.

    python -I -S tree_digest.py FOLDER RECORD [LEFT_OUT …]

Writes what a tree says of itself (`image.model.TreeDigest`, as JSON). What is hashed, byte for
byte, is in docs/explanation/tree-digest.md; tests/image/test_tree.py has it written out.

Builds run it inside of their sandbox, so it imports next to nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator

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
