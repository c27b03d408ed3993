"""Unpack a tar into a tree: files, folders and links of the caller, with permission bits alone."""

from __future__ import annotations

import os
import tarfile

from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.errors import Location, Reason, fail


def extract(path: str | os.PathLike[str], tree: ForeignTree) -> None:
    """Unpack a tar; what is there of the same name is replaced, never followed.

    Raises `StackproofError`: IMAGE_UNREADABLE for devices, pipes and damaged archives, and what the
    methods of `ForeignTree` raise.
    """
    folders: list[tarfile.TarInfo] = []
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                _extract(archive, member, tree)
                if member.isdir():
                    folders.append(member)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise fail(
            Reason.IMAGE_UNREADABLE,
            f"`{os.fspath(path)}` cannot be unpacked: {error}",
            where=Location(file=os.fspath(path)),
            hint="it is damaged: make it again",
        ) from error
    for member in reversed(folders):  # a folder that cannot be written to would take nothing more
        tree.set_mode(member.name, member.mode)
        tree.set_time(member.name, member.mtime)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: ForeignTree) -> None:
    if member.isdir():
        tree.make_folder(member.name)
        tree.set_mode(member.name, 0o700)
        return
    tree.make_folder(os.path.dirname(member.name))
    tree.remove(member.name)
    if member.issym():
        tree.make_link(member.name, member.linkname)
    elif member.islnk():
        tree.make_name(member.name, member.linkname)
        return
    else:
        stream = archive.extractfile(member) if member.isreg() else None
        if stream is None:
            raise tarfile.TarError(f"`{member.name}` is no file, folder or link")
        tree.write(member.name, stream, mode=member.mode & 0o777)
    tree.set_time(member.name, member.mtime)
