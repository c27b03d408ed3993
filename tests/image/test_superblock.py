"""Which bytes are a SquashFS image."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import make_image
from need import need
from stackproof.core.errors import Reason, StackproofError
from stackproof.image import superblock
from stackproof.image.superblock import Superblock


def _head(**changes: object) -> bytes:
    fields = {
        "magic": b"hsqs", "inodes": 7, "made": 0, "block_size": 131072, "fragments": 1,
        "compressor": 6, "block_log": 17, "flags": 0, "ids": 1, "major": 4, "minor": 0, "root": 0,
        "bytes_used": 4000,
    }  # fmt: skip
    return struct.pack("<4sIIIIHHHHHHQQ", *{**fields, **changes}.values()) + bytes(48)


def _outcome(head: bytes, file_size: int) -> Superblock | Reason:
    try:
        return superblock.parse(head, file_size=file_size, path="x.squashfs")
    except StackproofError as error:
        return error.reason


def test_reads_a_good_one() -> None:
    read = superblock.parse(_head(), file_size=4096, path="x.squashfs")
    assert read.data() == {
        "inodes": 7, "made": 0, "block_size": 131072, "compressor": "zstd", "bytes_used": 4000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("head", "size", "reason"),
    [
        (b"", 0, Reason.IMAGE_NOT_SQUASHFS),
        (b"hsq", 3, Reason.IMAGE_NOT_SQUASHFS),
        (b"hsqs", 4, Reason.IMAGE_TRUNCATED),
        (_head()[:95], 95, Reason.IMAGE_TRUNCATED),
        (_head(), 3999, Reason.IMAGE_TRUNCATED),
        (_head(magic=b"sqsh"), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(magic=b"\x7fELF"), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(major=3), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(minor=1), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(block_log=16), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(block_log=40), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(compressor=0), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(bytes_used=0), 4096, Reason.IMAGE_NOT_SQUASHFS),
        (_head(bytes_used=2**64 - 1), 4096, Reason.IMAGE_TRUNCATED),
    ],
)
def test_refuses(head: bytes, size: int, reason: Reason) -> None:
    assert _outcome(head, size) is reason


def test_exactly_as_long_as_it_says_is_whole() -> None:
    assert isinstance(_outcome(_head(), 4000), Superblock)


@given(st.binary(max_size=200), st.integers(0, 2**64))
def test_any_bytes_give_a_superblock_or_an_error_of_ours(data: bytes, size: int) -> None:
    for head in (data, b"hsqs" + data, _head()[: len(data)] + data):
        outcome = _outcome(head, size)
        assert isinstance(outcome, Superblock) or outcome in {
            Reason.IMAGE_NOT_SQUASHFS,
            Reason.IMAGE_TRUNCATED,
        }


@pytest.mark.parametrize("compressor", ["gzip", "lzo", "xz", "lz4", "zstd"])
def test_reads_what_mksquashfs_writes(tmp_path: Path, compressor: str) -> None:
    need("mksquashfs")
    image = make_image(tmp_path / "a.squashfs", options=("-comp", compressor, "-b", "256K"))
    found = superblock.parse(
        image.read_bytes()[: superblock.SIZE], file_size=image.stat().st_size, path="a"
    )
    said = subprocess.run(["unsquashfs", "-s", image], check=True, capture_output=True, text=True)
    assert (found.compressor, found.block_size) == (compressor, 256 * 1024)
    assert f"Number of inodes {found.inodes}" in said.stdout
    assert f"Filesystem size {found.bytes_used} bytes" in said.stdout
