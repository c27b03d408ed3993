"""Images are packed at one level, and are the same file however many threads pack them."""

from __future__ import annotations

import hashlib
import inspect
import os
import random
import subprocess
from pathlib import Path

import pytest

from need import need
from stackproof.build.engines.easybuild.stack import EasyBuildStack
from stackproof.build.engines.spack.stack import SpackStack
from stackproof.build.engines.vendor.stack import VendorStack
from stackproof.build.engines.wheel.stack import Stack
from stackproof.image import superblock


def make_tree(folder: Path) -> Path:
    """Make files of several blocks, some that compress and some that do not, and small ones."""
    choose = random.Random(3)
    for number in range(40):
        place = folder / f"part{number % 5}" / f"file{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        words = choose.choices([b"mpi ", b"rank ", b"node\n"], k=choose.randrange(1, 90000))
        place.write_bytes(b"".join(words) if number % 3 else choose.randbytes(200000))
    return folder


def digest(tree: Path, image: Path, *words: str, level: int = superblock.LEVEL) -> str:
    argv = superblock.pack_argv(os.fspath(tree), os.fspath(image), level=level)
    subprocess.run([*argv, *words], check=True, capture_output=True)
    return hashlib.sha256(image.read_bytes()).hexdigest()


def default(kind: type, field: str) -> object:
    return inspect.signature(kind).parameters[field].default


def test_threads_and_cores_make_no_difference(tmp_path: Path) -> None:
    need("mksquashfs")
    tree, image = make_tree(tmp_path / "tree"), tmp_path / "image.squashfs"
    found = {digest(tree, image, "-processors", count) for count in ("1", "2", "3", "8")}
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        found.add(digest(tree, image))
    finally:
        os.sched_setaffinity(0, before)
    found.add(digest(tree, image))
    assert len(found) == 1


@pytest.mark.battery
def test_the_level_is_that_which_was_asked_for(tmp_path: Path) -> None:
    need("mksquashfs")
    tree, image = make_tree(tmp_path / "tree"), tmp_path / "image.squashfs"
    assert len({digest(tree, image, level=level) for level in (1, superblock.LEVEL, 19)}) == 3
    said = subprocess.run(["unsquashfs", "-s", image], check=True, capture_output=True, text=True)
    assert "compression-level 19" in said.stdout


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_packs_have_the_level_of_images(compression: str) -> None:
    argv = superblock.pack_argv("tree", "image", compression=compression)
    assert argv[argv.index("-Xcompression-level") + 1] == str(superblock.LEVEL)
    for kind in (EasyBuildStack, SpackStack, VendorStack, Stack):
        assert default(kind, "compression_level") == superblock.LEVEL


def test_a_compressor_without_levels_gets_none() -> None:
    for name in ("xz", "lz4"):
        assert "-Xcompression-level" not in superblock.pack_argv("t", "i", compression=name)
