"""A clone of somebody else, whose settings, hooks and links want a program started or a file read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gitfolders import call, commit
from need import need
from stackproof.build.effects import git, gitview
from stackproof.core.errors import StackproofError
from stackproof.core.monitor import null_monitor

URL = "https://example.org/owner/tools.git"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Return the file that a program of the attacker's makes."""
    return tmp_path / "executed"


@pytest.fixture
def program(tmp_path: Path, mark: Path) -> Path:
    path = tmp_path / "attack"
    path.write_text(f'#!/bin/sh\ntouch {mark}\nexec git-upload-pack "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "clones" / "owner+tools"
    attributes = "* filter=attack diff=attack merge=attack\n"
    commit(folder, {"sub/file": "text\n", ".gitattributes": attributes})
    call(folder, "tag", "-a", "-m", "x", "v1")
    monkeypatch.setenv(git.MIRROR_VARIABLE, str(folder.parent))
    return folder


SETTINGS = {
    "promisor-upload-pack": ("remote.origin.promisor=true", "remote.origin.uploadpack={}",
                             "remote.origin.url=.", "extensions.partialClone=origin",
                             "core.repositoryFormatVersion=1"),
    "promisor-ext": ("remote.origin.promisor=true", "remote.origin.url=ext::{} %s",
                     "protocol.ext.allow=always", "protocol.allow=always",
                     "extensions.partialClone=origin", "core.repositoryFormatVersion=1"),
    "promisor-ssh": ("remote.origin.promisor=true", "remote.origin.url=ssh://nowhere/x",
                     "core.sshCommand={}", "ssh.variant=simple",
                     "extensions.partialClone=origin", "core.repositoryFormatVersion=1"),
    "promisor-proxy": ("remote.origin.promisor=true", "remote.origin.url=git://nowhere/x",
                       "core.gitProxy={}", "extensions.partialClone=origin",
                       "core.repositoryFormatVersion=1"),
    "promisor-helper": ("remote.origin.promisor=true", "remote.origin.url=https://nowhere.invalid/x",
                        "credential.helper=!{}", "core.askPass={}", "remote.origin.vcs={}",
                        "extensions.partialClone=origin", "core.repositoryFormatVersion=1"),
    "monitor": ("core.fsmonitor={}", "core.untrackedCache=true"),
    "hooks": ("core.hooksPath={folder}",),
    "filters": ("filter.attack.smudge={}", "filter.attack.process={}", "filter.attack.clean={}",
                "filter.attack.required=true", "diff.attack.textconv={}", "diff.attack.command={}",
                "merge.attack.driver={}", "diff.external={}"),
    "pack-hook": ("uploadpack.packObjectsHook={}", "uploadpack.allowFilter=true"),
    "alternate-refs": ("core.alternateRefsCommand={}",),
    "pagers": ("core.pager={}", "core.editor={}", "pager.ls-tree={}", "pager.show={}",
               "alias.ls-tree=!{}", "alias.fetch=!{}", "gpg.program={}", "log.showSignature=true"),
    "include": ("include.path={folder}/more",),
    "work-tree": ("core.worktree=/", "core.bare=false"),
    "archive": ("tar.tar.command={}", "tar.umask=0"),
    "submodules": ("submodule.recurse=true", "fetch.recurseSubmodules=true",
                   "submodule.sub.update=!{}"),
}  # fmt: skip


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize("kind", SETTINGS)
def test_no_setting_of_a_clone_starts_a_program(
    clone: Path, program: Path, mark: Path, kind: str, missing: bool
) -> None:
    head, lost = call(clone, "rev-parse", "HEAD"), call(clone, "rev-parse", "HEAD:sub")
    if missing:
        remove(clone / ".git" / "objects" / lost[:2] / lost[2:])
    folder = program.parent / "hooks"
    folder.mkdir()
    for name in ("pre-receive", "post-checkout", "post-index-change", "reference-transaction",
                 "pre-auto-gc", "fsmonitor-watchman", "post-merge", "update"):  # fmt: skip
        (folder / name).symlink_to(program)
        (clone / ".git" / "hooks" / name).symlink_to(program)
    (folder / "more").write_text(f'[core]\n\tsshCommand = "{program}"\n\tfsmonitor = {program}\n')
    for setting in SETTINGS[kind]:
        key, _, value = setting.partition("=")
        text = value.replace("{}", str(program)).replace("{folder}", str(folder))
        call(clone.parent, "config", "--file", str(clone / ".git" / "config"), key, text)
    use(head)
    assert not mark.exists()


def use(commit: str) -> list[object]:
    """Use a clone in every way that there is; return what answered."""
    found: list[object] = []
    base = Path(os.environ["STACKPROOF_CACHE"]).parent

    def take(answer: Callable[[], object]) -> None:
        try:
            found.append(answer())
        except StackproofError:
            found.append(None)

    take(lambda: git.resolve(URL, "v1"))
    take(lambda: git.resolve(URL, None))
    take(lambda: git.resolve(URL, "abcdef0123"))
    take(lambda: git.resolve(URL, commit[:9]))
    take(lambda: git.listed(URL, "v1", "sub"))
    take(lambda: git.listed(URL, "v1", "gone"))
    take(lambda: git.tree(URL, commit, null_monitor))
    take(lambda: git.archive(URL, commit, "p", base / "a.tar", null_monitor))
    take(lambda: git.export(URL, commit, "v1", base / "exported", null_monitor))
    return found


def remove(path: Path) -> None:
    path.chmod(0o644)
    path.unlink()


def test_a_clone_without_tricks_answers(clone: Path) -> None:
    head = call(clone, "rev-parse", "HEAD")
    found = use(head)
    assert found[:6] == [head, head, None, head, ("file",), ()]
    assert isinstance(found[6], Path)
    assert (found[6] / "sub" / "file").read_text() == "text\n"
    assert None not in found[8:]


def test_a_clone_of_another_user_is_read(clone: Path) -> None:
    need("root")
    head = call(clone, "rev-parse", "HEAD")
    for path in (clone, *clone.rglob("*")):
        os.chown(path, 4242, 4242)
    assert use(head)[4] == ("file",)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% {mark} ://",
        "--upload-pack=touch {mark}; ://",
        "ssh://-oProxyCommand=touch {mark}/x",
        "file::ext::touch ://",
    ],
)
def test_no_address_starts_a_program(clone: Path, mark: Path, url: str) -> None:
    for ref in ("main", "0" * 40):
        with pytest.raises(StackproofError):
            git.tree(url.format(mark=mark), git.resolve(url.format(mark=mark), ref), null_monitor)
    assert not mark.exists()


def test_no_setting_of_the_user_smudges_what_is_unpacked(
    clone: Path, program: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a commit are the same for everybody, and git-lfs goes to where the tree says."""
    home = clone.parent.parent
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text(f'[filter "attack"]\n\tsmudge = {program}\n')
    use(call(clone, "rev-parse", "HEAD"))
    assert not mark.exists()


def link_of(clone: Path, name: str, target: str | Path) -> None:
    path = clone / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def test_links_and_pipes_in_a_clone(clone: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1" * 40 + "\n")
    link_of(clone, "refs/heads/link", secret)
    link_of(clone, "refs/heads/folder", tmp_path)
    link_of(clone, "packed-refs", secret)
    os.mkfifo(clone / ".git" / "refs" / "heads" / "pipe")
    (clone / ".git" / "refs" / "heads" / "bad name").write_text("1" * 40)
    (clone / ".git" / "refs" / "heads" / "line\nbreak").write_text("1" * 40)
    (clone / ".git" / "refs" / "heads" / "a.lock").write_text("1" * 40)
    (clone / ".git" / "refs" / "heads" / "none").write_text("zzz")
    with gitview.opened(clone) as view:
        names = (view / "packed-refs").read_text()
        assert stat.S_IMODE(view.stat().st_mode) == 0o700
    assert "1" * 40 not in names
    assert names.count("\n") == 2


def test_a_work_tree_and_a_file_that_names_the_folder(clone: Path, tmp_path: Path) -> None:
    call(clone, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    head = call(clone, "rev-parse", "HEAD")
    assert git.resolve(str(tmp_path / "side"), None) == head
    assert git.resolve(str(tmp_path / "side"), "v1") == head


def test_a_clone_of_one_commit_and_packed_refs(clone: Path, tmp_path: Path) -> None:
    call(clone, "commit", "-q", "--allow-empty", "-m", "y")
    call(tmp_path, "clone", "-q", "--bare", "--depth=1", f"file://{clone}", "shallow")
    call(tmp_path / "shallow", "pack-refs", "--all")
    head = call(clone, "rev-parse", "HEAD")
    assert git.resolve(str(tmp_path / "shallow"), None) == head
    assert (git.tree(str(tmp_path / "shallow"), head, null_monitor) / "sub" / "file").is_file()


def test_long_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    call(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", "long")
    call(tmp_path / "long", "commit", "-q", "--allow-empty", "-m", "x")
    head = call(tmp_path / "long", "rev-parse", "HEAD")
    assert len(head) == 64
    assert git.resolve(str(tmp_path / "long"), "main") == head
