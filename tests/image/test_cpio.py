"""Archives of cpio: what its program made, and what no program would."""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from need import need
from refusing import refused
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.container import cpio
from stackproof.image.container.effects import layers
from stackproof.image.container.tar import MemoryStream
from vendorrpms import Member, Package, entry, link

END = entry("TRAILER!!!", b"", 0)


def members(content: bytes) -> list[cpio.CpioMember]:
    return list(cpio.entries(MemoryStream(content, "a.cpio")))


def test_an_archive_that_rpm_made(tmp_path: Path) -> None:
    need("rpmbuild")
    package = Package(
        "a-package",
        {
            "/a/file": Member(b"a file\n", stat.S_IFREG | 0o4755),
            "/a/link": link("file"),
            "/a/empty": Member(),
        },
    )
    path = package.built(tmp_path)
    made = subprocess.run(["rpm2cpio", path], check=True, capture_output=True).stdout
    found = {one.name: (one.kind, one.size, one.link, one.mode) for one in members(made)}
    assert found == {
        "./a/file": ("file", 7, "", 0o4755),
        "./a/link": ("symlink", 0, "file", 0o777),
        "./a/empty": ("file", 0, "", 0o644),
    }


def test_content_is_read_before_the_next_entry() -> None:
    stream = MemoryStream(
        entry("a", b"12345", stat.S_IFREG) + entry("b", b"6", stat.S_IFREG) + END, "a.cpio"
    )
    assert [stream.read(one.size) for one in cpio.entries(stream)] == [b"12345", b"6"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", Reason.IMAGE_UNREADABLE),
        (entry("a", b"12345", stat.S_IFREG), Reason.IMAGE_UNREADABLE),
        (b"070707" + bytes(200), Reason.IMAGE_UNREADABLE),
        (END.replace(b"0000000B", b"-000000B"), Reason.IMAGE_UNREADABLE),
        (END.replace(b"0000000B", b"7FFFFFFF"), Reason.TOO_LARGE),
        (entry("a", b"x" * 5000, stat.S_IFLNK), Reason.TOO_LARGE),
    ],
)
def test_what_is_no_archive(content: bytes, reason: Reason) -> None:
    with refused(reason):
        members(content)


@given(st.binary(max_size=400), st.integers(0, 300))
def test_any_bytes_end(noise: bytes, at: int) -> None:
    whole = entry("a", b"12345", stat.S_IFREG) + entry("b", b"x", stat.S_IFLNK) + END
    try:
        members(whole[:at] + noise + whole[at:])
    except StackproofError as error:
        assert error.reason in {Reason.IMAGE_UNREADABLE, Reason.TOO_LARGE}  # noqa: PT017


@pytest.mark.battery
@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_xz_and_bzip2_are_unpacked_in_pieces(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    plain = os.urandom(1 << 16) * 50
    path = tmp_path / "packed"
    path.write_bytes(pack(plain) + pack(b"more") + bytes(8))
    with layers.open_plain(layers.whole(str(path)), hashlib.sha256(), str(tmp_path)) as stream:
        assert stream.read(len(plain) + 10) == plain + b"more"
    for damage in (path.read_bytes()[:1000], path.read_bytes()[:500] + b"x" * 500):
        path.write_bytes(damage)
        with (
            refused(Reason.IMAGE_UNREADABLE),
            layers.open_plain(layers.whole(str(path)), hashlib.sha256(), str(tmp_path)) as stream,
        ):
            stream.read(len(plain))


def test_xz_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    chain = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=[{**chain[0], "dict_size": 1 << 16}])
    content = bytearray(packer.compress(b"x") + packer.flush())
    # The size of the dictionary in the block's header (The .xz File Format, 5.3.1), and its sum.
    content[16] = 37  # 1 GiB
    import zlib  # noqa: PLC0415

    content[20:24] = zlib.crc32(bytes(content[12:20])).to_bytes(4, "little")
    path = tmp_path / "greedy.xz"
    path.write_bytes(content)
    with (
        refused(Reason.IMAGE_UNREADABLE),
        layers.open_plain(layers.whole(str(path)), hashlib.sha256(), str(tmp_path)) as stream,
    ):
        stream.read(10)
