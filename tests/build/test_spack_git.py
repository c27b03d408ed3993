"""Repositories: refs to commits, commits to trees in the cache, clones in the place of addresses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stackproof.build.effects import git
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

WHO = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org",
       "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}  # fmt: skip
URL = "https://example.org/owner/tools.git"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of two commits: `v1`, an annotated tag, and what is there now."""
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(git.MIRROR_VARIABLE, raising=False)
    folder = tmp_path / "clones" / "owner+tools"
    folder.mkdir(parents=True)
    call(folder, "init", "-q", "-b", "main")
    for number, tag in ((1, "v1"), (2, "v2")):
        (folder / "file").write_text(f"{number}\n")
        call(folder, "add", ".")
        call(folder, "commit", "-qm", "x")
        call(folder, "tag", "-a", "-m", "x", tag)
    return folder


def call(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **WHO},
                          capture_output=True, text=True)  # fmt: skip
    return done.stdout.strip()


def test_refs(clone: Path) -> None:
    first, second = call(clone, "rev-parse", "v1^{}"), call(clone, "rev-parse", "HEAD")
    url = str(clone)
    assert git.resolve(url, "v1") == first
    assert git.resolve(url, "main") == git.resolve(url, None) == second
    assert git.resolve(url, first[:9]) == first
    assert git.resolve(url, first) == first


def test_a_ref_that_is_not_there(clone: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        git.resolve(str(clone), "v11")
    problem = caught.value.problems[0]
    assert problem.reason is Reason.UNKNOWN_VERSION
    assert "v1" in (problem.detail or "")


def test_a_commit_that_is_not_there(clone: Path, tmp_path: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        git.tree(str(clone), "0" * 40, null_monitor)
    assert caught.value.reason is Reason.UNKNOWN_VERSION
    assert not list((tmp_path / "cache").glob("git/trees/*"))


def test_a_tree_is_unpacked_once_and_then_needs_no_repository(clone: Path) -> None:
    first = call(clone, "rev-parse", "v1^{}")
    tree = git.tree(str(clone), first, null_monitor)
    assert (tree / "file").read_text() == "1\n"
    assert not (tree / ".git").exists()
    shutil.rmtree(clone)
    assert git.tree(str(clone), first, null_monitor) == tree


def test_clones_in_the_place_of_addresses(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = call(clone, "rev-parse", "HEAD")
    for value in (
        f"{URL}={clone}",
        str(clone.parent),
        f"https://example.org/x={clone},{clone.parent}",
    ):
        monkeypatch.setenv(git.MIRROR_VARIABLE, value)
        assert git.find(URL).local
        assert git.resolve(URL, None) == head


@pytest.mark.parametrize("value", ["/nowhere", f"{URL}=/nowhere"])
def test_a_mirror_that_is_not_there(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(git.MIRROR_VARIABLE, value)
    with pytest.raises(StackproofError) as caught:
        git.find(URL)
    assert caught.value.reason is Reason.FILE_MISSING


def test_what_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        git.find(str(tmp_path))
    assert caught.value.reason is Reason.FILE_MISSING


def test_a_repository_that_does_not_answer(clone: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        git.resolve(f"file://{clone}-gone", "v1")
    assert caught.value.reason is Reason.NO_NETWORK
