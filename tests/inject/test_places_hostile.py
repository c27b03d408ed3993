"""The folders above a place, where others may write: what stands there is looked at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from need import need
from stackproof.core.effects.foreign import folder
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.effects import versions

pytestmark = [
    pytest.mark.guarantee(
        "Folders of several users",
        "The folders above a place are walked by name, and made with their mode.",
        "`install` and `inject apply` follow a link there only if you or root made it, and "
        "change the mode of nothing afterwards. Tried: links at each part of the path, and "
        "the folder exchanged for a link or for a private folder in the moment after it was "
        "made.",
    )
]

MALLORY = 31001
PLACES = ("new/sw", "new/more/sw", "new/../new/sw", "./new/.//sw")


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """Return a folder where everybody writes, beside a private one."""
    (tmp_path / "private").mkdir(mode=0o700)
    team = tmp_path / "team"
    team.mkdir()
    team.chmod(0o777)
    return team


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def plant(link: Path, target: str | Path, owner: int = MALLORY) -> None:
    """Make a link of another user."""
    need("root")
    link.symlink_to(target)
    os.lchown(link, owner, owner)


def lock(place: Path | str) -> None:
    with versions.locked(versions.real_place(str(place))):
        pass


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o777])
def test_what_is_made_can_be_entered_and_what_is_there_stays(team: Path, umask: int) -> None:
    need("root")  # who may enter what the last umask leaves
    (team / "here").mkdir(mode=0o750)
    before = os.umask(umask)
    try:
        lock(team / "here/a/b/sw")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert mode(team / "here") == 0o750
    made = ("here/a", "here/a/b", "here/a/b/.stackproof")
    assert [mode(team / path) for path in made] == [0o755] * 3


@pytest.mark.parametrize("place", PLACES)
def test_nobody_leads_to_another_folder_by_a_link(team: Path, place: str) -> None:
    private = team.parent / "private"
    plant(team / "new", private)
    with pytest.raises(StackproofError) as error:
        lock(f"{team}/{place}")
    assert error.value.reason is Reason.NOT_PERMITTED
    assert "uid 31001" in str(error.value)
    assert (mode(private), list(private.iterdir())) == (0o700, [])


@pytest.mark.parametrize("target", ["private", "../private", "team/new"])
def test_nor_behind_a_link_of_ours(team: Path, target: str) -> None:
    plant(team / "new", team.parent / "private")
    (team.parent / "ours").symlink_to(team)
    plant(team / "next", os.path.join("..", target))
    for place in ("ours/new/sw", "ours/next/sw", "ours/next/more/sw"):
        with pytest.raises(StackproofError):
            lock(team.parent / place)
    assert list((team.parent / "private").iterdir()) == []


def test_a_link_of_ours_is_followed(team: Path) -> None:
    (team / "disk").mkdir()
    (team / "new").symlink_to("disk")
    assert versions.real_place(f"{team}/new/sw") == f"{os.path.realpath(team)}/disk/sw"
    lock(team / "new/sw")
    assert os.listdir(team / "disk") == [".stackproof"]
    (team / "hanging").symlink_to("disk/later")
    lock(team / "hanging/sw")
    assert os.listdir(team / "disk/later") == [".stackproof"]


@pytest.mark.parametrize("before", [None, 0o644])
def test_a_reader_cannot_hold_the_lock(team: Path, before: int | None) -> None:
    """Neither a new one, nor that of an older release: flock(2) asks for no right to write."""
    keep = team / "mine/.stackproof"
    if before is not None:
        keep.mkdir(parents=True)
        (keep / "lock").touch()
        (keep / "lock").chmod(before)
    lock(team / "mine/sw")
    assert mode(keep / "lock") == 0o600


@pytest.mark.parametrize("swapped", ["new", "new/deep", "new/deep/.stackproof"])
@pytest.mark.parametrize("what", ["link", "folder"])
def test_a_folder_exchanged_when_it_was_made_changes_no_other(
    team: Path, monkeypatch: pytest.MonkeyPatch, swapped: str, what: str
) -> None:
    """The moment between making and opening, held: a link is refused, a mode is never given."""
    need("root")
    private = team.parent / "private"
    victim, mkdir = team / swapped, os.mkdir

    def exchange(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        if name == victim.name and victim.is_dir() and private.exists():
            victim.rename(team / "away")
            if what == "folder":
                private.rename(victim)
            else:
                plant(victim, private)

    monkeypatch.setattr(folder.os, "mkdir", exchange)
    before = os.umask(0o077)
    try:
        if what == "folder":
            lock(team / "new/deep/sw")
        else:
            with pytest.raises(StackproofError):
                lock(team / "new/deep/sw")
    finally:
        os.umask(before)
    assert (team / "away").is_dir()
    assert mode(victim if what == "folder" else private) == 0o700
