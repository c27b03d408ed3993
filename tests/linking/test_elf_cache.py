"""What was read of ELF files is kept, and never believed when the file or the entry changed."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from stackproof.linking.effects import cache as linking_cache
from stackproof.linking.effects.cache import ElfCache
from stackproof.linking.effects.view import RootView
from stackproof.linking.elf import ElfFile, Glance
from stackproof.linking.elf.constants import Traces

LIBRARIES = ("/bin/true", "/bin/ls")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A file that was not changed just now."""
    place = tmp_path / "library"
    (tmp_path / "below").mkdir()
    shutil.copy(LIBRARIES[0], tmp_path / "below" / "one")
    settled(tmp_path / "below" / "one")
    shutil.copy(LIBRARIES[0], place)
    return settled(place)


@pytest.fixture
def kept(tmp_path: Path) -> ElfCache:
    return ElfCache(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Count a second as long ago: tests do not wait for clocks."""
    monkeypatch.setattr(linking_cache, "_SETTLED_S", -1.0)


def settled(place: Path) -> Path:
    os.utime(place, (1, 1))
    return place


def entries(kept: ElfCache) -> list[Path]:
    return sorted(path for path in kept._home.glob("??/*"))


def everything(place: Path, kept: ElfCache | None):
    view = RootView("/", None, kept)
    file = view.look(str(place))
    return view.elf(file), view.traces(file), tuple(view.glances(str(place.parent / "below")))


def test_the_same_with_and_without(library, kept):
    plain = everything(library, None)
    assert isinstance(plain[0], ElfFile)
    assert isinstance(plain[1], Traces)
    assert isinstance(plain[2][0][2], Glance)
    assert everything(library, kept) == plain
    assert len(entries(kept)) == 3
    assert everything(library, kept) == plain


def test_kept_is_what_is_used(library, kept, monkeypatch):
    plain = everything(library, kept)
    monkeypatch.setattr(RootView, "_opened", None)  # nothing is opened any more
    assert everything(library, kept) == plain


def test_a_changed_file_is_read_again(library, kept):
    first = everything(library, kept)
    shutil.copy(LIBRARIES[1], library)
    assert everything(library, kept) == everything(library, None) != first


def test_a_file_that_was_changed_just_now_is_not_kept(library, kept, monkeypatch):
    monkeypatch.setattr(linking_cache, "_SETTLED_S", 60.0)
    everything(library, kept)
    assert entries(kept) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
        lambda content: content[:16] + b"{}",
        lambda content: linking_cache._checksum(b"[]") + b"[]",
    ],
)
def test_damaged_entries_are_made_again(library, kept, damage):
    plain = everything(library, kept)
    before = {path: path.read_bytes() for path in entries(kept)}
    for path, content in before.items():
        path.write_bytes(damage(content))
    assert everything(library, kept) == plain
    assert {path: path.read_bytes() for path in entries(kept)} == before


def test_another_version_of_the_reader(library, kept, monkeypatch):
    everything(library, kept)
    monkeypatch.setattr(linking_cache, "READER", "another")
    everything(library, kept)
    assert len(entries(kept)) == 6


def test_without_a_right_or_a_place(library, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    assert everything(library, ElfCache(blocked)) == everything(library, None)


def test_many_at_once(library, kept):
    plain, found = everything(library, None), []
    threads = [
        threading.Thread(target=lambda: found.append(everything(library, kept))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [plain] * 8
    assert len(entries(kept)) == 3


def test_it_does_not_grow_without_bounds(kept):
    for number in range(20):
        kept.store(str, f"key {number}", "x" * 1000)
        path = kept._path(str, f"key {number}")
        os.utime(path, (number + 1, number + 1))
    linking_cache.sweep(kept._home, 5500)
    left = [number for number in range(20) if kept.load(str, f"key {number}")]
    assert left == [15, 16, 17, 18, 19]
