"""The digest of a tree: one for the same content, modes and links, whatever packed them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from need import need
from refusing import refused
from stackproof.core import noun
from stackproof.core.effects import cache_kinds
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.effects import tree, tree_digest
from stackproof.image.model import TREE_RECORD, TreeDigest

COVERS = ("image/effects/tree.py", "image/effects/tree_digest.py")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a tree with something of every kind that stacks have."""
    folder = tmp_path / "tree"
    for name in ("lib", "empty", "meta", "benchmarks"):
        (folder / name).mkdir(parents=True)
    (folder / "lib/libmpi.so.12.1").write_bytes(b"\x7fELF" + bytes(range(256)) * 40)
    (folder / "lib/libmpi.so.12").symlink_to("libmpi.so.12.1")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "odd\nname\xe4").write_text("")
    (folder / "benchmarks/stackproof-bench").write_text("what a compiler makes")
    (folder / "meta/env.json").write_text("{}")
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.name == "run" else 0o644)
    return folder


def pack(folder: Path, image: Path, *options: str) -> Path:
    need("mksquashfs")
    argv = ("mksquashfs", folder, image, "-quiet", "-no-progress", "-noappend", *options)
    subprocess.run(argv, check=True, capture_output=True)
    return image


def test_the_bytes_that_are_hashed(place: Path) -> None:
    """The definition, written out; docs/explanation/tree-digest.md says the same."""
    elf, empty = (hashlib.sha256((place / name).read_bytes()).hexdigest().encode()
                  for name in ("lib/libmpi.so.12.1", "odd\nname\xe4"))  # fmt: skip
    script = hashlib.sha256(b"#!/bin/sh\n").hexdigest().encode()
    records = (
        (b"stackproof/tree/1", b"", b"", b""),
        (b"-", b"", b"", b"benchmarks"),
        (b"d", b"0755", b"", b"empty"),
        (b"d", b"0755", b"", b"lib"),
        (b"l", b"", b"libmpi.so.12.1", b"lib/libmpi.so.12"),
        (b"f", b"0644", elf, b"lib/libmpi.so.12.1"),
        (b"-", b"", b"", b"meta"),
        (b"f", b"0644", empty, "odd\nname\xe4".encode()),
        (b"f", b"0755", script, b"run"),
    )
    text = b"".join(field + b"\0" for record in records for field in record)
    found = tree.of_folder(place)
    assert found.sha256 == hashlib.sha256(text).hexdigest()
    assert found.without == ("benchmarks", "meta")


@pytest.mark.parametrize(
    "options",
    [
        ("-comp", "gzip", "-Xcompression-level", "1"),
        ("-comp", "xz", "-b", "64K", "-all-root"),
        ("-comp", "zstd", "-Xcompression-level", "19", "-mkfs-time", "0", "-all-time", "0"),
        ("-comp", "lz4", "-no-fragments", "-no-duplicates", "-no-xattrs"),
        ("-noI", "-noD", "-noF", "-noX", "-force-uid", "1234"),
    ],
)
def test_it_does_not_depend_on_the_packer(
    place: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    image = pack(place, tmp_path / "a.squashfs", *options)
    mask = os.umask(0o077)
    try:
        found = tree.of_image(os.fspath(image))
    finally:
        os.umask(mask)
    assert found == tree.of_folder(place)


def _touch(place: Path) -> None:
    os.utime(place / "run", (1, 1))


def _compile_otherwise(place: Path) -> None:
    (place / "benchmarks/stackproof-bench").write_text("by another compiler")
    (place / "meta/stack.json").write_text("{}")


def _twice_one_file(place: Path) -> None:
    (place / "again").write_text("#!/bin/sh\n")
    (place / "again").chmod(0o755)
    before = tree.of_folder(place)
    (place / "again").unlink()
    os.link(place / "run", place / "again")
    assert tree.of_folder(place) == before
    (place / "again").unlink()


@pytest.mark.parametrize("change", [_touch, _compile_otherwise, _twice_one_file])
def test_what_does_not_count(place: Path, change: Callable[[Path], None]) -> None:
    before = tree.of_folder(place)
    change(place)
    assert tree.of_folder(place) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place / "run").write_text("#!/bin/sh \n"),
        lambda place: (place / "run").chmod(0o644),
        lambda place: (place / "empty").rmdir(),
        lambda place: (place / "empty").chmod(0o700),
        lambda place: (place / "run").rename(place / "empty" / "run"),
        lambda place: (place / "lib/meta").mkdir(),
        lambda place: os.mkfifo(place / "fifo"),
        lambda place: (
            (place / "lib/libmpi.so.12").unlink(),
            (place / "lib/libmpi.so.12").symlink_to("libmpi.so.13"),
        ),
    ],
)
def test_what_counts(place: Path, change: Callable[[Path], object]) -> None:
    before = tree.of_folder(place)
    change(place)
    assert tree.of_folder(place) != before


def test_what_is_left_out_is_part_of_it(place: Path) -> None:
    """Nobody can leave out more without it being seen, also where nothing is left out by that."""
    digests = {tree.of_folder(place, names).sha256 for names in ((), ("meta",), ("meta", "none"))}
    assert len(digests) == 3


def test_an_image_that_records_its_tree(place: Path, tmp_path: Path) -> None:
    assert tree.recorded(os.fspath(pack(place, tmp_path / "none.squashfs"))) is None
    tree_digest.main(os.fspath(place), os.fspath(place / TREE_RECORD), "meta", "benchmarks")
    assert (place / TREE_RECORD).read_text() == noun.to_json(tree.of_folder(place))
    image = os.fspath(pack(place, tmp_path / "a.squashfs"))
    known = tree.recorded(image)
    assert known == tree.of_folder(place) == tree.verified(image)
    assert tree.verified(image, known.sha256) == known
    with pytest.raises(StackproofError, match="is another one") as caught:
        tree.verified(image, "0" * 64)
    assert caught.value.reason is Reason.IMAGE_DAMAGED


def test_an_image_that_is_not_what_it_records(place: Path, tmp_path: Path) -> None:
    wrong = TreeDigest(sha256="0" * 64, without=("meta",))
    (place / TREE_RECORD).write_text(noun.to_json(wrong))
    image = os.fspath(pack(place, tmp_path / "a.squashfs"))
    with refused(Reason.IMAGE_DAMAGED) as caught:
        tree.verified(image)
    assert "recorded 000" in (caught.value.problems[0].detail or "")
    (place / TREE_RECORD).write_text("{")
    with pytest.raises(StackproofError):
        tree.verified(os.fspath(pack(place, tmp_path / "b.squashfs")))
    (place / TREE_RECORD).unlink()
    with refused(Reason.IMAGE_NO_META):
        tree.verified(os.fspath(pack(place, tmp_path / "c.squashfs")))


def test_an_image_that_cannot_be_unpacked_leaves_nothing(place: Path, tmp_path: Path) -> None:
    image = pack(place, tmp_path / "a.squashfs")
    image.write_bytes(image.read_bytes()[:200])
    with refused(Reason.IMAGE_UNREADABLE):
        tree.of_image(os.fspath(image))
    assert not list(cache_kinds.home("trees").glob(".digest.*"))
