"""Images on disk, read without mounting: good ones, bad ones, hostile ones."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from images import ENV_JSON, MOUNT, env_json, make_image
from need import need
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.effects.image_file import load_image, load_superblock, read_member
from stackproof.image.effects.view import ImageFiles

COVERS = ("image/effects/image_file.py",)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    need("mksquashfs")
    return make_image(tmp_path / "a.squashfs")


def _reason(path: Path | str) -> Reason:
    with pytest.raises(StackproofError) as caught:
        load_image(os.fspath(path))
    return caught.value.reason


def test_load(image: Path) -> None:
    found = load_image(os.fspath(image))
    assert (found.path, found.size, found.mount) == (str(image), image.stat().st_size, MOUNT)
    assert (found.name, found.sha256) == ("tiny", "")
    head, size = load_superblock(os.fspath(image))
    assert size == found.size >= head.bytes_used


def test_a_folder_meta_beside_the_image_is_not_believed(image: Path) -> None:
    beside = image.parent / "meta"
    beside.mkdir()
    (beside / "env.json").write_text('{"mount": "/lie", "name": "lie"}')
    assert load_image(os.fspath(image)).name == "tiny"


def test_read_member(image: Path) -> None:
    assert read_member(os.fspath(image), "bin/hello").startswith(b"#!/bin/sh\n")
    assert read_member(os.fspath(image), "bin/h*").startswith(b"#!/bin/sh\n")
    assert read_member(os.fspath(image), "bin/none") == b""
    assert read_member(os.fspath(image), "bin") == b""


def test_a_name_that_looks_like_an_option(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image.rename(tmp_path / "-help")
    monkeypatch.chdir(tmp_path)
    assert load_image("-help").name == "tiny"


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


_BAD: dict[str, tuple[Callable[[Path], object], Reason]] = {
    "missing": (Path.unlink, Reason.IMAGE_MISSING),
    "empty": (lambda path: path.write_bytes(b""), Reason.IMAGE_NOT_SQUASHFS),
    "text": (lambda path: path.write_text("x" * 200), Reason.IMAGE_NOT_SQUASHFS),
    "fifo": (_fifo, Reason.IMAGE_NOT_SQUASHFS),
    "folder": (_folder, Reason.IMAGE_NOT_SQUASHFS),
    "cut": (lambda path: os.truncate(path, path.stat().st_size // 2), Reason.IMAGE_TRUNCATED),
    "cut short": (lambda path: os.truncate(path, 10), Reason.IMAGE_TRUNCATED),
}


@pytest.mark.parametrize("name", list(_BAD))
def test_bad_images(image: Path, name: str) -> None:
    change, reason = _BAD[name]
    change(image)
    assert _reason(image) is reason


def test_what_loses_its_set_uid_bit_is_seen_in_the_image(image: Path) -> None:
    assert ImageFiles(str(image)).set_id() == ("/bin/whoami",)


def test_a_path_through_a_file_or_with_a_nul(image: Path) -> None:
    assert _reason(image / "below") is Reason.IMAGE_MISSING
    assert _reason("a\0b") is Reason.IMAGE_UNREADABLE


def test_no_right_to_read(image: Path) -> None:
    if os.geteuid() == 0:
        need("root")
        image.parent.chmod(0o755)
        # Root reads everything: take the right to do so away for a moment.
        image.chmod(0)
        pid = os.fork()
        if pid == 0:
            os.chdir(image.parent)
            os.setresuid(65534, 65534, 65534)
            try:
                load_superblock("a.squashfs")
            except StackproofError as error:
                os._exit(0 if error.reason is Reason.IMAGE_UNREADABLE else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    else:
        image.chmod(0)
        assert _reason(image) is Reason.IMAGE_UNREADABLE


@pytest.mark.parametrize("meta", [None, "", "{", {"name": "x"}])
def test_no_usable_metadata(tmp_path: Path, meta: dict | str | None) -> None:
    need("mksquashfs")
    assert _reason(make_image(tmp_path / "a.squashfs", meta=meta)) is Reason.IMAGE_NO_META


def test_a_metadata_bomb_is_not_unpacked(tmp_path: Path) -> None:
    need("mksquashfs")
    bomb = env_json(description="x" * (17 << 20))
    image = make_image(tmp_path / "a.squashfs", meta=bomb)
    assert image.stat().st_size < 1 << 20
    assert _reason(image) is Reason.IMAGE_UNREADABLE


@pytest.mark.battery
def test_damage_gives_an_image_or_an_error_of_ours(tmp_path: Path) -> None:
    need("mksquashfs")
    good = make_image(tmp_path / "a.squashfs").read_bytes()
    dice = random.Random(2)
    allowed = {
        Reason.IMAGE_NOT_SQUASHFS,
        Reason.IMAGE_TRUNCATED,
        Reason.IMAGE_UNREADABLE,
        Reason.IMAGE_NO_META,
    }
    path = tmp_path / "b.squashfs"
    reasons = set()
    for _ in range(60):
        data = bytearray(good)
        for _ in range(dice.choice((1, 4, 64))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        try:
            load_image(os.fspath(path))
        except StackproofError as error:
            reasons.add(error.reason)
    assert reasons
    assert reasons <= allowed
    # The last byte only fills the last block, and means nothing.
    path.write_bytes(good[:-1] + b"x")
    assert load_image(os.fspath(path)).name == ENV_JSON["name"]
