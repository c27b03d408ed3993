"""Folders of sources and clones on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitfolders import commit
from stackproof.build.effects import git, source_mirror
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

ADDRESS = "https://example.org/owner/tool.git"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))


def test_a_clone_of_one_commit_stands_for_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = commit(tmp_path / "tool", {"a": "1"})
    second = commit(tmp_path / "tool", {"b": "2"}, branch="next")
    folder = tmp_path / "taken" / "git"
    monkeypatch.setenv(git.MIRROR_VARIABLE, f"{ADDRESS}={tmp_path / 'tool'}")
    for commit_id, ref in ((first, "main"), (second, "next"), (second, second), (second, "HEAD")):
        assert git.export(ADDRESS, commit_id, ref, folder, null_monitor) == folder / (
            "owner+tool.git"
        )
    monkeypatch.setenv(git.MIRROR_VARIABLE, str(folder))
    (tmp_path / "tool").rename(tmp_path / "gone")
    assert git.resolve(ADDRESS, "main") == first
    assert git.resolve(ADDRESS, "next") == second
    assert git.resolve(ADDRESS, None) == second
    assert git.resolve(ADDRESS, second[:10]) == second
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "another"))
    for commit_id, names in ((first, {"a"}), (second, {"a", "b"})):
        tree = git.tree(ADDRESS, commit_id, null_monitor)
        assert {path.name for path in tree.iterdir()} == names


def test_a_path_of_this_machine_is_not_taken_along(tmp_path: Path):
    first = commit(tmp_path / "tool", {"a": "1"})
    assert git.export(str(tmp_path / "tool"), first, "main", tmp_path / "x", null_monitor) is None
    assert not (tmp_path / "x").exists()


def test_a_commit_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    commit(tmp_path / "tool", {"a": "1"})
    monkeypatch.setenv(git.MIRROR_VARIABLE, f"{ADDRESS}={tmp_path / 'tool'}")
    with pytest.raises(StackproofError) as raised:
        git.export(ADDRESS, "f" * 40, "main", tmp_path / "taken", null_monitor)
    assert raised.value.reason is Reason.UNKNOWN_VERSION
    assert not (tmp_path / "taken").exists()


def test_what_a_mirror_holds(tmp_path: Path):
    mirror = source_mirror.prepare(tmp_path / "new" / "mirror")
    name = "_source-cache/archive/ab/abcd.tar.xz"
    (mirror / name).parent.mkdir(parents=True)
    (mirror / name).write_bytes(b"content")
    assert source_mirror.prepare(mirror) == mirror
    (mirror / "readable").symlink_to(mirror / name)
    (mirror / "git").mkdir()
    (mirror / "git" / "pack").write_bytes(b"12345")
    contents = source_mirror.contents(mirror)
    assert contents.sources == {name: 7}
    assert contents.git_bytes == 5
    assert source_mirror.contents(tmp_path / "nowhere").sources == {}
