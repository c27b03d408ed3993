"""A pack as a folder, or as one file: the same bytes for the same tree and packer."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import files, run
from stackproof.image import squashfs
from stackproof.pack.effects import oci_layout, one_file, tar_files
from stackproof.pack.model import Pack

BESIDE = "beside"
"""The folder next to a tree that holds what an archive has next to the pack's folder."""
_TIMEOUT_S = 3600.0
_LEVEL = "-10"
_GZIP_LEVEL = 6  # that of gzip itself; by its header a pack is known


def write_folder(tree: Path, output: Path, pack: Pack) -> None:
    """Give a finished tree its name; raises `StackproofError` for what is there already."""
    del pack
    try:
        os.rename(tree, output)
    except OSError as error:
        raise files.translate(error, output) from error


def write_tar(tree: Path, output: Path, pack: Pack) -> None:
    """Write a tree as a folder of a tar archive, packed by zstd."""
    plain, packed = tree.with_name("plain.tar"), tree.with_name("packed.zst")
    try:
        _plain_tar(tree, plain, pack)
        argv = ("zstd", "-q", "-f", "-T1", _LEVEL, str(plain), "-o", str(packed))
        run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
        os.replace(packed, output)
    except OSError as error:
        raise files.translate(error, output) from error


def write_gzip(tree: Path, output: Path, pack: Pack) -> None:
    """Write a tree as a folder of a tar archive, packed by gzip, which every machine unpacks.

    Neither name nor time stands in its header (RFC 1952), so that the bytes are the tree's alone.
    """
    plain, packed = tree.with_name("plain.tar"), tree.with_name("packed.gz")
    try:
        _plain_tar(tree, plain, pack)
        with (
            plain.open("rb") as source,
            packed.open("wb") as target,
            gzip.GzipFile("", "wb", _GZIP_LEVEL, target, mtime=0) as archive,
        ):
            shutil.copyfileobj(source, archive, 1 << 20)
        os.replace(packed, output)
    except OSError as error:
        raise files.translate(error, output) from error


def _plain_tar(tree: Path, plain: Path, pack: Pack) -> None:
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        tar_files.add(archive, tree, pack.name)
        tar_files.add_all(archive, tree.with_name(BESIDE))


def write_squashfs(tree: Path, output: Path, pack: Pack) -> None:
    """Write a tree as a SquashFS image, whose root it is."""
    del pack
    packed = tree.with_name("packed.squashfs")
    try:
        argv = squashfs.pack_argv(str(tree), str(packed))
        run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
        os.replace(packed, output)
    except OSError as error:
        raise files.translate(error, output) from error


WRITERS: dict[str, Callable[[Path, Path, Pack], None]] = {
    "dir": write_folder,
    "tar.zst": write_tar,
    "tar.gz": write_gzip,
    "squashfs": write_squashfs,
    "oci": oci_layout.write_layout,
    "self": one_file.write_one_file,
}
"""What writes each format; a tree is used up by it."""
