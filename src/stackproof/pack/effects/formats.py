"""A pack as a folder, or as one file: the same bytes for the same tree and packer."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import files, run
from stackproof.image import squashfs
from stackproof.pack.effects import oci_layout, one_file, tar_files
from stackproof.pack.model import Pack

_TIMEOUT_S = 3600.0
_LEVEL = "-10"


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
        with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
            tar_files.add(archive, tree, pack.name)
        argv = ("zstd", "-q", "-f", "-T1", _LEVEL, str(plain), "-o", str(packed))
        run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
        os.replace(packed, output)
    except OSError as error:
        raise files.translate(error, output) from error


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
    "squashfs": write_squashfs,
    "oci": oci_layout.write_layout,
    "self": one_file.write_one_file,
}
"""What writes each format; a tree is used up by it."""
