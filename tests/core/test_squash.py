"""Members of an image are read by their very names, and listed without anything being unpacked."""

from __future__ import annotations

import subprocess

import pytest

from need import need
from stackproof.core.effects.foreign import squash, unpack
from stackproof.core.effects.foreign.parser import Bounds

BOUNDS = Bounds(seconds=60, output=1 << 20)


@pytest.fixture
def image(tmp_path):
    need("mksquashfs")
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("a*", "ab", "[x]", "x", "q?"):
        (tree / name).write_text(f"of {name}")
    path = tmp_path / "image.squashfs"
    subprocess.run(["mksquashfs", tree, path, "-quiet", "-no-progress", "-noappend"], check=True)
    return str(path)


@pytest.mark.parametrize("name", ["a*", "ab", "[x]", "x", "q?"])
def test_a_name_with_wildcards_is_that_file_alone(image, name):
    ended = squash.read(image, squash.literal(name), BOUNDS)
    assert (ended.code, ended.output.decode(), ended.fault) == (0, f"of {name}", "")


def test_a_member_that_is_not_there(image):
    assert squash.read(image, "meta/env.json", BOUNDS).code == squash.NOT_THERE


def test_more_than_was_allowed_is_a_fault(image):
    assert squash.read(image, "ab", Bounds(seconds=60, output=1)).fault == "size"


def test_a_list_has_every_name(image):
    ended = squash.listed(image, BOUNDS)
    lines = ended.output.decode().splitlines()
    names = {line.rpartition(f"{squash.TOP}/")[2] for line in lines if f"{squash.TOP}/" in line}
    assert names == {"a*", "ab", "[x]", "x", "q?"}


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_packed_file_that_root_alone_can_read_is_expanded(tmp_path, mode):
    need("zstd")
    (tmp_path / "plain").write_bytes(b"hello" * 1000)
    subprocess.run(["zstd", "-q", tmp_path / "plain", "-o", tmp_path / "packed"], check=True)
    (tmp_path / "packed").chmod(mode)
    with (tmp_path / "out").open("w+b") as out:
        ended = unpack.expand(str(tmp_path / "packed"), out.fileno(), 1 << 20)
        assert (ended.code, ended.fault, ended.complaints) == (0, "", b"")
    assert (tmp_path / "out").read_bytes() == b"hello" * 1000
