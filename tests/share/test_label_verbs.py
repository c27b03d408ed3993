"""Images by label, as a user calls them: added, listed, used by every verb, pruned, removed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import inprocess
import terminals
import uenvsql
from images import env_json, make_image
from mounting import way
from need import need

COVERS = ("share/cli/image.py", "share/effects/naming.py", "share/effects/places.py")
FULL = "tiny/1:v1@here%x86_64"
_TIMEOUT_S = 600


class User:
    """A user with a folder, a repository and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repo"

    def run(self, *words: object, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"STACKPROOF_REPOSITORY": str(self.repository), "CLUSTER_NAME": None}
        given = {**own, "STACKPROOF_CACHE": str(self.folder / "cache"), **env}
        done = inprocess.stackproof(*words, cwd=self.folder, **given)
        assert done.returncode == code, done.stderr
        assert "bug in stackproof" not in done.stderr
        return done

    def labels(self, *words: str, **env: str) -> list[str]:
        return self.run("image", "ls", "--names", *words, **env).stdout.splitlines()

    def records(self, *words: str) -> list[dict[str, Any]]:
        return list(json.loads(self.run("image", "ls", "--json", *words).stdout)["records"])

    def stored(self) -> list[str]:
        return sorted(path.name for path in (self.repository / "images").iterdir())


@pytest.fixture
def user(tmp_path: Path) -> User:
    need("mksquashfs")
    make_image(tmp_path / "a.squashfs")
    make_image(tmp_path / "b.squashfs", meta=env_json(name="other"))
    return User(tmp_path)


def test_from_a_file_to_a_label_and_back(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    user.run("image", "add", "tiny/1:stable", "tiny/1:v1")
    user.run("image", "add", "other/2:v1@here%x86_64", "b.squashfs")
    assert user.labels() == ["other/2:v1@here%x86_64", "tiny/1:stable@here%x86_64", FULL]
    assert user.labels("ti") == user.labels("TINY/1") == ["tiny/1:stable@here%x86_64", FULL]
    user.run("image", "add", "tiny-x/1:v1@here%x86_64", "tiny:v1")
    assert user.labels("tiny:v1") == [FULL, "tiny-x/1:v1@here%x86_64"]
    user.run("image", "rm", "tiny-x/1:v1@here%x86_64")
    first = next(one for one in user.records("tiny:v1"))
    assert first["path"] == str(user.repository / "images" / first["digest"] / "store.squashfs")
    assert first["id"] == first["digest"][:16]
    assert {"name", "version", "tag", "system", "uarch", "size", "date", "used"} <= first.keys()
    table = user.run("image", "ls").stdout.splitlines()
    assert table[0].split()[:4] == ["LABEL", "ID", "SIZE", "DATE"]
    assert len(table) == 4

    said = user.run("image", "rm", FULL).stdout
    assert "its image has further labels" in said
    assert " B " not in said  # nothing was freed
    assert len(user.stored()) == 2
    user.run("image", "rm", first["id"])
    assert first["digest"] not in user.stored()
    assert user.labels() == ["other/2:v1@here%x86_64"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["add", "tiny/1", "a.squashfs"], 2, "`tiny/1` lacks: tag ["),
        (["add", "a.squashfs", "tiny/1:v1"], 2, "image add tiny/1:v1 a.squashfs"),
        (["add", "tiny/3:v1", "gone.squashfs"], 6, "there is no image `gone.squashfs`"),
        (["add", "tiny//1", "a.squashfs"], 2, "at character 6"),
        (["add", FULL, "gone.squashfs"], 6, "there is no image `gone.squashfs`"),
        (["add", FULL, "gone"], 6, "there is no image `gone`"),
        (["add", FULL, "b.squashfs"], 2, "[label-taken]"),
        (["rm", "nothing"], 6, "[image-missing]"),
        (["rm", "tiny"], 2, "[label-ambiguous]"),
        (["rm", "not a label"], 2, "is no label"),
        (["ls", "tinny"], 6, "did you mean `tiny`?"),
        (["inspect", "tiny"], 2, "means 2 images"),
        (["inspect", "deploy::tiny"], 6, "`stackproof image pull deploy::tiny`"),
        (["inspect", "tiny/3"], 6, "of `tiny` there is: `tiny/1:v1`, `tiny/2:v1`"),
    ],
)
def test_wrong_words(user: User, words: list[str], code: int, said: str) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    user.run("image", "add", "tiny/2:v1@here%x86_64", "b.squashfs")
    done = user.run("image", *words, code=code)
    assert said in done.stderr
    assert len(user.labels()) == 2


_ALL_VERBS = (
    ("run", "gone/1", "--", "true"), ("start", "gone/1"), ("activate", "gone/1"),
    ("inspect", "gone/1"), ("image", "inspect", "gone/1"), ("image", "verify", "gone/1"),
    ("doctor", "gone/1"), ("install", "gone/1", "--to", "prefix"), ("pack", "gone/1", "-o", "x"),
    ("bench", "--dry-run", "--baseline", "gone/1"), ("inject", "check", "a.squashfs", "--with", "gone/1"),
)  # fmt: skip


@pytest.mark.parametrize("words", _ALL_VERBS, ids=" ".join)
@pytest.mark.parametrize("filled", [True, False])
def test_every_verb_says_alike_that_a_word_is_no_image(
    user: User, words: tuple[str, ...], *, filled: bool
) -> None:
    """Also where nothing has been added yet."""
    if filled:
        user.run("image", "add", FULL, "a.squashfs")
    code = 3 if words[0] == "inject" else 6
    done = user.run(*words, code=code)
    assert f": neither a file, nor a label in `{user.repository}` [" in done.stderr


@pytest.mark.parametrize(
    "words", [words for words in _ALL_VERBS if words[0] != "inject"], ids=" ".join
)
def test_every_verb_says_alike_that_a_file_is_missing(user: User, words: tuple[str, ...]) -> None:
    words = tuple(word.replace("gone/1", "gone.squashfs") for word in words)
    stderr = user.run(*words, code=6).stderr
    assert re.search(r"error: there is no image `\S*gone.squashfs` \[image-missing\]", stderr)
    assert "make one with `stackproof build`; `stackproof image ls` lists labels" in stderr


def test_the_system_is_that_of_the_site_unless_it_is_said(user: User) -> None:
    user.run("image", "add", "tiny/1:v1%x86_64", "a.squashfs", CLUSTER_NAME="here")
    user.run("image", "add", "tiny/1:v1@there%x86_64", "b.squashfs", CLUSTER_NAME="here")
    assert user.labels() == [FULL, "tiny/1:v1@there%x86_64"]
    assert user.labels(CLUSTER_NAME="here") == user.labels()
    assert user.labels("ti", CLUSTER_NAME="here") == [FULL]
    assert "tiny:" in user.run("inspect", "tiny", CLUSTER_NAME="here").stdout
    assert "other:" in user.run("inspect", "tiny", CLUSTER_NAME="there").stdout
    assert "[label-ambiguous]" in user.run("inspect", "tiny@*", CLUSTER_NAME="here", code=2).stderr
    done = user.run("inspect", "tiny", CLUSTER_NAME="elsewhere", code=6)
    assert "this is `elsewhere`, and it is there for others: `tiny/1:v1@" in done.stderr


@pytest.mark.parametrize(
    ("stack", "uarch", "why"),
    [
        ("", os.uname().machine, "as this machine"),
        ('{"architecture": "riscv64"}', "riscv64", "which it was built for"),
        ('{"architecture": "x86_64", "target": "zen3"}', "zen3", "which it was built for"),
        ('{"architecture": "not a part"}', os.uname().machine, "as this machine"),
        ("[", os.uname().machine, "as this machine"),
        ("[1]", os.uname().machine, "as this machine"),
    ],
)
def test_a_label_takes_what_it_lacks_from_the_image_and_the_machine(
    user: User, stack: str, uarch: str, why: str
) -> None:
    make_image(user.folder / "c.squashfs", stack=stack)
    done = user.run("image", "add", "tiny/1:v1", "c.squashfs")
    assert user.labels() == [f"tiny/1:v1@here%{uarch}"]
    assert (
        f"note: the label is of the system `here`, as CLUSTER_NAME is not set; of the uarch "
        f"`{uarch}`, {why}\n" in done.stderr
    )
    done = user.run("image", "add", "tiny/1:v2@there", "c.squashfs", CLUSTER_NAME="daint")
    assert f"note: the label is of the uarch `{uarch}`, {why}\n" in done.stderr
    done = user.run("image", "add", "tiny/1:v3", "tiny/1:v2@there", CLUSTER_NAME="daint")
    assert "of the system `there`, as its other label" in done.stderr
    done = user.run("image", "add", "tiny/1:v4", "c.squashfs", CLUSTER_NAME="daint")
    assert "of the system `daint`, as CLUSTER_NAME says" in done.stderr
    done = user.run("image", "add", "tiny/1:v5@there%zen2", "c.squashfs")
    assert "note:" not in done.stderr


def test_without_a_terminal_a_whole_label_or_an_id_is_deleted_alone(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    words = ("tiny", "tiny/1:v1", ":v1", "tinny", "other")
    done = user.run("image", "rm", *words, code=2)
    assert done.stderr.count(f"give NAME/VERSION:TAG@SYSTEM%UARCH, `{FULL}`, or its id") == 3
    assert done.stderr.count("[image-missing]") == 2
    assert "did you mean" not in done.stderr  # no other image to delete is suggested
    done = user.run("image", "rm", "tiny/1:v2", code=6)
    assert "tiny/1:v1" not in done.stderr
    said = user.run("image", "rm", "tiny", "--yes", code=2)  # nobody has seen what it means
    assert "nobody confirms this (--yes, or no terminal), and `tiny`" in said.stderr
    assert "hint: give NAME/VERSION:TAG@SYSTEM%UARCH, `tiny/1:v1@here%x86_64`" in said.stderr
    assert user.labels() == [FULL]
    user.run("image", "rm", "tiny/1:v1%x86_64@here", "--yes")
    assert user.labels() == []


@pytest.mark.parametrize(
    ("word", "answer", "code", "left"),
    [
        ("tiny", "\n", 11, [FULL]),
        ("tiny", "no\n", 11, [FULL]),
        (FULL, "\4", 11, [FULL]),  # the end of input
        ("tiny", "y\n", 0, []),
        (FULL, "YES\n", 0, []),
    ],
)
def test_a_terminal_is_asked_before_an_image_goes(
    user: User, word: str, answer: str, code: int, left: list[str]
) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    env = {**os.environ, "STACKPROOF_REPOSITORY": str(user.repository)}
    program = [sys.executable, "-m", "stackproof", "image", "rm"]
    with terminals.terminal() as (ours, theirs):
        process = subprocess.Popen([*program, word], stdin=theirs, stdout=theirs, stderr=theirs,
                                   env=env)  # fmt: skip
        seen = terminals.read_until(ours, b"[y/N] ").decode()
        os.write(ours, answer.encode())
        assert process.wait(timeout=_TIMEOUT_S) == code
    assert FULL in seen  # in full, before it goes
    assert user.labels() == left
    with terminals.terminal() as (_, theirs):
        done = subprocess.run([*program, FULL, "--yes"], stdin=theirs, stderr=theirs, check=False,
                              timeout=_TIMEOUT_S, env=env)  # fmt: skip
    assert done.returncode == (0 if left else 6)


def test_a_file_of_that_name_wins(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    (user.folder / "b.squashfs").rename(user.folder / "tiny")
    assert user.run("inspect", "tiny").stdout.startswith("other:")
    assert user.run("inspect", "./tiny").stdout.startswith("other:")
    assert user.run("inspect", FULL).stdout.startswith("tiny:")
    (user.folder / "tiny").unlink()
    (user.folder / "tiny").mkdir()  # no file
    assert user.run("inspect", "tiny").stdout.startswith("tiny:")
    assert "./tiny" in user.run("inspect", "./tiny", code=6).stderr


def test_inspect_tells_labels_and_checks_the_digest(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    user.run("image", "add", "tiny/1:stable", FULL)
    for verb in (["inspect"], ["image", "inspect"]):
        data = json.loads(user.run(*verb, "tiny:v1", "--json").stdout)
        assert data["labels"] == ["tiny/1:stable@here%x86_64", FULL]
    assert "as recorded" in user.run("inspect", "tiny:v1", "--verify").stdout
    (path,) = {one["path"] for one in user.records()}
    Path(path).chmod(0o644)
    with open(path, "r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"x")
    assert "[image-damaged]" in user.run("inspect", "tiny:v1", "--verify", code=6).stderr
    assert "digest " in user.run("image", "fsck", "--digests", code=6).stdout


@pytest.mark.battery
@pytest.mark.parametrize("how", ["kernel", "fuse"])
def test_run_and_activate_take_labels(user: User, how: str) -> None:
    mounter = way(how, user.folder)
    for number, file in enumerate(("a.squashfs", "b.squashfs")):
        user.run("image", "add", f"tiny/{number}:v1@here%x86_64", file)
    here = ["env", f"STACKPROOF_REPOSITORY={mounter.folder}/repo", *mounter.stackproof]

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            mounter.argv(*here, *words), capture_output=True, text=True, timeout=_TIMEOUT_S,
            check=False, env={"PATH": os.environ["PATH"], "HOME": "/"},
        )  # fmt: skip

    done = call("run", "tiny/0:v1", "--", "hello")
    assert (done.stdout, done.returncode) == ("hello from the image\n", 0), done.stderr
    (user.folder / "mount").mkdir()
    point = f"{mounter.folder}/mount"
    done = call("run", f"tiny/0:v1,tiny/1:v1:{point}", "--no-view", "--", f"{point}/bin/hello")
    assert (done.stdout, done.returncode) == ("hello from the image\n", 0), done.stderr
    done = call("run", "tiny", "--", "true")
    assert (done.returncode, "2 images" in done.stderr) == (2, True)
    done = call("run", "tiny/7,tini,./a", "--", "true")
    assert done.returncode == 6
    assert done.stderr.count("error: ") == 2  # the labels at once
    mounts = call("activate", "tiny/0:v1").stdout.splitlines()[0]
    (record,) = user.records("tiny/0")
    assert (
        mounts
        == f"# mount: {mounter.folder}/repo/images/{record['digest']}/store.squashfs:/user-environment"
    )


def test_a_bench_names_arms_by_their_labels(user: User) -> None:
    for number, file in enumerate(("a.squashfs", "b.squashfs")):
        user.run("image", "add", f"tiny/{number}:v1@here%x86_64", file)
    words = ("--dry-run", "--json", "--placement", "intra-node")
    done = user.run(
        "bench", "--baseline", "tiny/0:v1", "--challenger", "new=tiny/1", *words
    )  # fmt: skip
    images = {one["digest"]: one["path"] for one in user.records()}
    plan = done.stdout
    assert all(path in plan for path in images.values())
    assert '"tiny-0-v1"' in plan
    (user.folder / "spec.yaml").write_text(
        "baseline: {image: 'tiny/0:v1'}\n"
        "challengers: [{image: 'tiny/1', name: other}]\n"
        "placements: [intra-node]\n"
        "benchmarks: [latency]\n"
    )
    plan = user.run("bench", "spec.yaml", "--dry-run", "--json").stdout
    assert all(path in plan for path in images.values())
    failed = user.run("bench", "--baseline", "tiny", "--challenger", "tiny/1", *words, code=2)
    assert "[label-ambiguous]" in failed.stderr


def test_doctor_and_inject_take_labels(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    said = user.run("doctor", "tiny", "--json", code=0).stdout
    assert json.loads(said)
    done = user.run("doctor", "tinny", code=6)
    assert "did you mean `tiny`?" in done.stderr
    done = user.run("run", "a.squashfs", "--inject", "tinny", "--", "true", code=6)
    assert "did you mean `tiny`?" in done.stderr
    done = user.run("inject", "check", sys.executable, "--with", "tiny", code=3)
    assert "libmpi" in done.stderr  # the image was found, and it has no MPI's files
    assert "does not exist" not in done.stderr


def test_several_repositories_the_first_is_written(user: User, tmp_path: Path) -> None:
    site = tmp_path / "site"
    user.run("image", "add", FULL, "a.squashfs", STACKPROOF_REPOSITORY=str(site))
    user.run("image", "add", "site/1:v1@here%x86_64", "a.squashfs", STACKPROOF_REPOSITORY=str(site))
    both = f"{user.repository}:{site}"
    user.run("image", "add", FULL, "b.squashfs", STACKPROOF_REPOSITORY=both)
    assert user.labels(STACKPROOF_REPOSITORY=both) == [FULL, "site/1:v1@here%x86_64"]
    assert user.run("inspect", "tiny", STACKPROOF_REPOSITORY=both).stdout.startswith("other:")
    user.run("image", "add", "mine/1:v1", "site/1:v1", STACKPROOF_REPOSITORY=both)  # a copy
    assert len(user.stored()) == 2
    assert (
        "[image-missing]"
        in user.run("image", "rm", "site", STACKPROOF_REPOSITORY=both, code=6).stderr
    )


def test_without_a_word_it_is_where_uenv_looks(user: User, tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    for folder in (scratch, home):
        folder.mkdir()
    places = {"STACKPROOF_REPOSITORY": "", "SCRATCH": str(scratch), "HOME": str(home)}
    user.run("image", "add", FULL, "a.squashfs", **places)
    assert (scratch / ".uenv-images" / "index.db").is_file()
    uenvsql.create(home / ".uenv" / "repo")
    assert user.labels(**places) == [FULL]
    assert user.labels(**{**places, "SCRATCH": str(tmp_path / "none")}) == []


def test_an_image_removed_behind_its_back(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    (record,) = user.records()
    os.unlink(record["path"])
    assert "gone" in user.run("image", "ls").stdout
    done = user.run("inspect", "tiny", code=6)
    assert "the image of the label `tiny/1:v1@here%x86_64` is gone" in done.stderr
    data = json.loads(user.run("image", "fsck", "--json", code=6).stdout)
    assert [one["fault"] for one in data["faults"]] == ["gone"]
    user.run("image", "fsck", "--repair")
    assert (user.labels(), user.stored()) == ([], [])


def test_what_has_no_label_is_pruned_and_what_is_unused_is_seen(user: User) -> None:
    user.run("image", "add", FULL, "a.squashfs")
    user.run("image", "add", "tiny/2:v1@here%x86_64", "b.squashfs")
    old = time.time() - 40 * 86400
    for one in user.records():
        os.utime(one["path"], (old, old))
        os.utime(os.path.dirname(one["path"]), (old, old))
    user.run("inspect", "tiny/2")  # a use
    assert "40 d ago" in user.run("image", "ls").stdout
    user.run("image", "prune", "--all")
    assert len(user.labels()) == 2
    user.run("image", "rm", FULL)
    user.run("image", "add", "tiny/2:v1@here%x86_64", "a.squashfs", "--force")
    assert len(user.stored()) == 2
    filled = user.repository / "images" / ("f" * 64)  # by uenv, which gives the label last
    filled.mkdir()
    done = user.run("image", "prune")
    assert "deleted 1 entries" in done.stdout
    assert "1 entries are in use by a running command and stay" in done.stderr
    assert len(user.stored()) == 2
    assert filled.exists()


def test_a_mistyped_microarchitecture_is_noted(user: User) -> None:
    for uarch, meant in (("x8664", "x86_64"), ("neoverse-v2", "neoverse_v2")):
        said = user.run("image", "add", f"tiny/1:v1@here%{uarch}", "a.squashfs").stderr
        assert f"note: no machine known here is a `{uarch}`: was `{meant}` meant?" in said
    for uarch in ("x86_64", "zen2", "zen6", "gh200", "hopper"):
        said = user.run("image", "add", f"tiny/1:v1@here%{uarch}", "a.squashfs").stderr
        assert "meant?" not in said
