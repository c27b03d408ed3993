"""A pack as a folder, or as one file: the same bytes for the same tree and packer."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import files, run
from stackproof.image import squashfs
from stackproof.pack.model import PROGRAMS

_TIMEOUT_S = 3600.0
_LEVEL = "-10"
# GNU tar warns of the epoch itself.
_TIME = 1


def write_folder(tree: Path, output: Path, name: str) -> None:
    """Give a finished tree its name; raises `StackproofError` for what is there already."""
    del name
    try:
        os.rename(tree, output)
    except OSError as error:
        raise files.translate(error, output) from error


def write_tar(tree: Path, output: Path, name: str) -> None:
    """Write a tree as `name/` of a tar archive, packed by zstd.

    Entry points come last: what was unpacked in part has none.
    """
    plain = output.with_name(f".{output.name}.tar")
    packed = output.with_name(f".{output.name}.zst")
    try:
        with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(_member(archive, tree, name))
            for path in _in_order(tree):
                _add(archive, path, f"{name}/{os.path.relpath(path, tree)}")
        argv = ("zstd", "-q", "-f", "-T1", _LEVEL, str(plain), "-o", str(packed))
        run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
        os.replace(packed, output)
    except OSError as error:
        raise files.translate(error, output) from error
    finally:
        files.remove(plain)
        files.remove(packed)


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


def write_squashfs(tree: Path, output: Path, name: str) -> None:
    """Write a tree as a SquashFS image, whose root it is."""
    del name
    packed = output.with_name(f".{output.name}.new")
    try:
        argv = squashfs.pack_argv(str(tree), str(packed))
        run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
        os.replace(packed, output)
    except OSError as error:
        raise files.translate(error, output) from error
    finally:
        files.remove(packed)


WRITERS: dict[str, Callable[[Path, Path, str], None]] = {
    "dir": write_folder,
    "tar.zst": write_tar,
    "squashfs": write_squashfs,
}
"""What writes each format; a tree is used up by it."""
