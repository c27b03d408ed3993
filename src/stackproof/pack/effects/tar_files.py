"""A tree as members of a tar archive: the same bytes whoever made the tree, when and where."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from stackproof.pack.model import PROGRAMS

# GNU tar warns of the epoch itself.
_TIME = 1


def add(archive: tarfile.TarFile, tree: Path, name: str) -> None:
    """Add a file, or a folder with all that is in it, as `name`.

    Entry points of a pack come last: what was unpacked in part has none.
    """
    _add(archive, tree, name)
    for path in _in_order(tree):
        _add(archive, path, f"{name}/{os.path.relpath(path, tree)}")


def add_all(archive: tarfile.TarFile, folder: Path) -> None:
    """Add what is in a folder, without it; nothing where it is not there."""
    for path in _in_order(folder):
        _add(archive, path, os.path.relpath(path, folder))


def add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    """Add an empty folder."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, _TIME
    entry.uname = entry.gname = "root"
    archive.addfile(entry)


def _in_order(tree: Path) -> list[Path]:
    found = []
    for inner, folders, names in os.walk(tree):
        found += [Path(inner, name) for name in (*folders, *names)]
    late = tree / PROGRAMS
    return sorted(found, key=lambda path: (path == late or late in path.parents, path))


def _member(archive: tarfile.TarFile, path: Path, name: str) -> tarfile.TarInfo:
    entry = archive.gettarinfo(str(path), arcname=name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = _TIME
    if entry.islnk():  # twice the same file: as its own in the archive
        entry.type, entry.linkname = tarfile.REGTYPE, ""
        entry.size = path.stat().st_size
    return entry


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = _member(archive, path, name)
    if not entry.isreg():
        archive.addfile(entry)
        return
    with path.open("rb") as stream:
        archive.addfile(entry, stream)
