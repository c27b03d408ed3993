"""Commits as files of sources: the bytes that git itself writes, on every machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from stackproof.build.effects import git
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"), ("DATE", "2020-01-02T03:04:05Z"))
}
# What git archive writes of the files below.
COMMIT = "0a389645cfa47eaeb46044224ea7ac7c729cfa10"
SHA256 = "620cb00e352c67abe2389836a2681566cb33ee99ade197bb50deff3993634a9b"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    words = ["git", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
    for more in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*words, *more], cwd=folder, env={**os.environ, **IDENTITY}, check=True)
    return folder


def test_the_same_bytes_everywhere(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[tar]\n\tumask = 0077\n")
    target = tmp_path / "one-1.0.tar"
    git.archive(str(repository), COMMIT, "one-1.0", target, null_monitor)
    with tarfile.open(target) as packed:
        assert sorted(packed.getnames()) == [
            "one-1.0",
            "one-1.0/a.txt",
            "one-1.0/link",
            "one-1.0/run",
        ]
        assert packed.getmember("one-1.0/run").mode & 0o111
    assert hashlib.sha256(target.read_bytes()).hexdigest() == SHA256


def test_a_commit_that_is_not_there(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    with pytest.raises(StackproofError) as caught:
        git.archive(str(repository), "0" * 40, "one-1.0", tmp_path / "x.tar", null_monitor)
    assert caught.value.reason is Reason.UNKNOWN_VERSION
    assert not (tmp_path / "x.tar").exists()
