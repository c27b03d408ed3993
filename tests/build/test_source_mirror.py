"""Folders of sources and clones, and the package that a stack would use, on disk."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

import spackstacks
from stackproof.build.effects import git, source_mirror
from stackproof.build.engines.spack import os_sources
from stackproof.build.engines.spack.effects.packages import Packages
from stackproof.build.engines.spack.stack import FileEntry, LocalRepository, LockedClone, SpackStack
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace

ADDRESS = "https://example.org/owner/tool.git"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))


def commit(folder: Path, files: dict[str, str], *, branch: str = "main") -> str:
    """Commit files on a branch of a repository that is made if need be; return the commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    if not (folder / ".git").exists():
        subprocess.run(["git", "init", "-q", "-b", branch], cwd=folder, check=True, timeout=600)
    for words in (("checkout", "-q", "-B", branch), ("add", "."), (*who, "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=600)
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, timeout=600, capture_output=True
    )
    return done.stdout.decode().strip()


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


def test_sources_lie_by_their_digest(tmp_path: Path):
    source = tmp_path / "thing_1.0.orig.tar.xz"
    source.write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    mirror = source_mirror.prepare(tmp_path / "new" / "mirror")
    assert not source_mirror.holds(mirror, digest)
    path = source_mirror.put(mirror, source, digest)
    name = f"{source_mirror.ARCHIVES}/{digest[:2]}/{digest}.tar.xz"
    assert str(path.relative_to(mirror)) == name
    assert source_mirror.holds(mirror, digest)
    assert source_mirror.prepare(mirror) == mirror
    (mirror / "readable").symlink_to(path)
    (mirror / "git").mkdir()
    (mirror / "git" / "pack").write_bytes(b"12345")
    found = source_mirror.contents(mirror)
    assert found.sources == {name: 7}
    assert found.git_bytes == 5
    path.write_bytes(b"damaged")
    assert source_mirror.put(mirror, source, digest).read_bytes() == b"content"
    assert source_mirror.contents(tmp_path / "nowhere").sources == {}


def stack_of(tmp_path: Path, generation: int) -> tuple[SpackStack, Packages]:
    """Return a stack with `tool` in the recipe and in Spack, `other` only in Spack."""
    stack = spackstacks.stack(generation)
    base = "var/spack/repos/builtin" if generation == 1 else "repos/spack_repo/builtin"
    texts = {
        f"{base}/{os_sources.package_path(name, generation)}": 'version("1")\n'
        for name in ("tool", "py-other")
    }
    text = b'version("2")\n'
    digest = hashlib.sha256(text).hexdigest()
    (tmp_path / "tool.py").write_bytes(text)
    entry = FileEntry(sha256=digest)
    path = os_sources.package_path("tool", generation)
    local = LocalRepository(namespace="recipe", files={path: entry})
    clones = []
    for clone in spackstacks.clones(stack):
        has = "spack" if generation == 1 else "builtin"
        folder = tmp_path / "clones" / clone.name
        made = commit(folder, texts if clone.name == has else {"x": "x"})
        clones.append(LockedClone(name=clone.name, url=str(folder), ref="main", commit=made,
                                  folder=clone.folder))  # fmt: skip
    stack = replace(stack, local_repositories=(local,))
    blobs = {digest: tmp_path / "tool.py"}
    return stack, Packages(stack, blobs, tuple(clones), null_monitor)


@pytest.mark.parametrize("generation", [1, 2])
def test_the_package_is_the_one_that_spack_would_use(tmp_path: Path, generation: int):
    _, packages = stack_of(tmp_path, generation)
    namespace, facts = packages.find("tool")
    assert namespace == "recipe"
    assert set(facts.versions) == {"2"}
    assert packages.find("py-other")[0] == "builtin"
    with pytest.raises(StackproofError) as raised:
        packages.find("py-otter")
    assert raised.value.reason is Reason.INVALID_VALUE
    assert "`py-other`" in str(raised.value.problems[0].hint)
