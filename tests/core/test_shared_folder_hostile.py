"""What others put in the place of folders and files: judged, refused by name, never followed."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from need import need
from refusals import refused
from stackproof.cluster.effects import state
from stackproof.core.effects import files, outputs
from stackproof.core.effects.foreign import folder
from stackproof.core.errors import Reason, fail

pytestmark = [
    pytest.mark.guarantee(
        "Folders of several users",
        "A folder is opened once, judged, and used by its descriptor.",
        "It must be yours or root's, and nobody else may write to it; otherwise the error "
        "names its owner. Tried: modes, owners, links in each part of the path, exchanged "
        "folders.",
    ),
]

MALLORY = 31001


def refusal(use: object) -> str:
    with refused(Reason.NOT_PERMITTED) as caught:
        use()  # type: ignore[operator]
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o777, 0o772, 0o1777, 0o2772])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, monkeypatch, mode):
    path = tmp_path / "team"
    path.mkdir()
    path.chmod(mode)
    said = refusal(lambda: folder.open_folder(path))
    assert f"its mode is {mode:04o}" in said
    assert "STACKPROOF_SHARED" in said
    monkeypatch.setenv("STACKPROOF_SHARED", f"/nowhere:{tmp_path}")
    with folder.open_folder(path) as team:
        assert team.shared


def test_a_folder_of_another_is_refused_with_its_name(tmp_path):
    need("root")
    path = tmp_path / "theirs"
    path.mkdir()
    os.chown(path, MALLORY, MALLORY)
    assert f"uid {MALLORY}" in refusal(lambda: folder.open_folder(path))
    os.chown(path, 65534, 65534)
    assert "`nobody` (uid 65534)" in refusal(lambda: folder.open_folder(path))
    with folder.open_folder(path, any_owner=True) as theirs:
        assert theirs.names() == []


def test_a_link_of_another_is_not_followed(tmp_path):
    need("root")
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    with folder.open_folder(link) as own:
        own.write("file", b"")
    assert (tmp_path / "real" / "file").exists()
    os.chown(link, MALLORY, MALLORY, follow_symlinks=False)
    assert "leads through a link of" in refusal(lambda: folder.open_folder(link))
    (tmp_path / "real" / "inner").mkdir()
    refusal(lambda: folder.open_folder(link / "inner"))
    refusal(lambda: folder.open_folder(link / "new" / "newer", make=0o755))
    assert not (tmp_path / "real" / "new").exists()


@pytest.mark.parametrize("what", ["link", "fifo", "folder", "second name"])
def test_a_file_is_a_plain_file_of_one_name(tmp_path, what):
    secret = tmp_path / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    (tmp_path / "place").mkdir()
    planted = tmp_path / "place" / "file"
    if what == "link":
        planted.symlink_to(secret)
    elif what == "fifo":
        os.mkfifo(planted)
    elif what == "folder":
        planted.mkdir()
    else:
        planted.hardlink_to(secret)
    busy = fail(Reason.BUSY, "busy")
    with folder.open_folder(tmp_path / "place") as place:
        refusal(lambda: place.open_file("file"))
        if what != "folder":
            refusal(lambda: place.open_file("file", os.O_RDWR | os.O_CREAT))
            refusal(lambda: place.locked("file", seconds=0, mode=0o600, busy=busy).__enter__())
            place.write("file", b"new")
        place.remove("file")
        assert place.names() == []
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("mine", 0o600)


def test_folders_in_it_are_judged_too(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top" / "open").mkdir()
    (tmp_path / "top" / "open").chmod(0o777)
    with folder.open_folder(tmp_path / "top") as top:
        assert "is a link" in refusal(lambda: top.open_folder("link", make=0o755))
        assert "0777" in refusal(lambda: top.open_folder("open"))
        with top.open_folder("new", make=0o700) as new:
            new.set_mode(0o755)
        assert stat.S_IMODE((tmp_path / "top" / "new").stat().st_mode) == 0o755


def test_a_tree_goes_and_nothing_it_links_to(tmp_path):
    """However deep it is, closed to its owner, and with names that lead out."""
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_text("stays")
    outside.chmod(0o751)
    top = tmp_path / "place" / "tree"
    top.mkdir(parents=True)
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "fifo")
    (top / "closed").mkdir()
    (top / "closed" / "file").write_text("")
    (top / "closed" / "more").mkdir()
    (top / "closed" / "more" / "link").symlink_to(outside / "inner")
    (top / "closed" / "more").chmod(0o500)
    (top / "closed").chmod(0)
    at = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    with folder.open_folder(tmp_path / "place") as place:
        place.remove("tree")
        place.remove("tree")
        assert place.names() == []
    assert sorted(path.name for path in outside.iterdir()) == ["file", "inner"]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o751


def test_a_folder_that_is_exchanged_stays_the_one_that_was_opened(tmp_path):
    place, other = tmp_path / "place", tmp_path / "other"
    place.mkdir()
    other.mkdir()
    with folder.open_folder(place) as opened:
        place.rename(tmp_path / "moved")
        place.symlink_to(other)
        opened.write("file", b"x")
        opened.rename("file", "renamed")
    assert list(other.iterdir()) == []
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["renamed"]


def test_what_is_written_replaces_a_link_and_not_what_it_leads_to(tmp_path):
    """While somebody exchanges the name all the time."""
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (tmp_path / "place").mkdir()
    name = tmp_path / "place" / "file"
    ended = threading.Event()

    def plant() -> None:
        while not ended.is_set():
            name.unlink(missing_ok=True)
            try:
                name.symlink_to(secret)
            except FileExistsError:
                continue

    attacker = threading.Thread(target=plant)
    attacker.start()
    try:
        with folder.open_folder(tmp_path / "place") as place:
            for _ in range(200):
                place.write("file", b"new")
    finally:
        ended.set()
        attacker.join()
    assert secret.read_text() == "mine"


@pytest.mark.parametrize(
    ("mode", "owner", "group", "expected"),
    [
        (0o755, 5, 5, ""), (0o755, 0, 0, ""), (0o755, 6, 5, "foreign"), (0o775, 5, 5, ""),
        (0o775, 5, 9, "written"), (0o777, 5, 5, "written"), (0o775, 0, 0, "written"),
    ],
)  # fmt: skip
def test_the_judgement(monkeypatch, mode, owner, group, expected):
    def state(mode, owner, group):
        return os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))

    monkeypatch.setattr(os, "geteuid", lambda: 5)
    monkeypatch.setattr(os, "getegid", lambda: 5)
    one = state(mode, owner, group)
    said = "foreign" if outputs.is_foreign(one) else ""
    assert (said or ("written" if outputs.writable_by_others(one) else "")) == expected
    assert outputs.keeps_names(state(0o1777, 0, 0))
    assert not outputs.keeps_names(state(0o0777, 0, 0))
    assert not outputs.keeps_names(state(0o1777, 6, 0))


def test_a_private_folder_is_in_a_place_that_keeps_names(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    said = refusal(lambda: folder.open_folder(tmp_path / "open" / "own", make=0o700, private=True))
    assert "can be exchanged by others" in said
    (tmp_path / "open").chmod(0o1777)
    with folder.open_folder(tmp_path / "open" / "own", make=0o700, private=True):
        pass


@pytest.mark.guarantee(
    "Folders of several users",
    "A name in /tmp or /dev/shm that another user has taken keeps nobody from working.",
    "Another folder of your own is used, ranks mount for themselves, builds go to disk. "
    "Tried: every name taken, and no cache in the home.",
)
def test_every_name_is_taken_and_the_home_is_empty(tmp_path, monkeypatch):
    """The last of the places is made with what lies above it."""
    taken = [tmp_path / "a", tmp_path / "b"]
    taken[0].symlink_to(tmp_path)
    taken[1].write_text("")
    last = tmp_path / "home" / ".cache" / "stackproof-7"
    (tmp_path / "home").mkdir()
    assert folder.one_private_folder([*taken, last], hint="") == last
    assert stat.S_IMODE(last.stat().st_mode) == 0o700
    assert stat.S_IMODE(last.parent.stat().st_mode) == 0o700
    files.remove(tmp_path / "home")
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(state, "_PLACES", (str(tmp_path / "taken"),))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / f"stackproof-{os.geteuid()}").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert state.base() == tmp_path / "home" / ".cache" / f"stackproof-{os.geteuid()}"


@pytest.mark.parametrize("whose", ["mine", "for others", "another's", "link", "relative", "none"])
def test_whose_runtime_folder_is_believed(tmp_path, monkeypatch, whose):
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    if whose == "for others":
        path.chmod(0o777)
    elif whose == "another's":
        need("root")
        os.chown(path, MALLORY, MALLORY)
    elif whose == "link":
        path = tmp_path / "link"
        path.symlink_to("run")
    elif whose == "relative":
        monkeypatch.chdir(tmp_path)
        path = Path("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "" if whose == "none" else str(path))
    assert folder.runtime_folder() == (path if whose == "mine" else None)
