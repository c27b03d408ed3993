"""Recipes for EasyBuild as a user meets them: verbs, messages, exit codes, files left behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import easybuilds
from need import need
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.effects.builder import machine_problems
from stackproof.build.engines.easybuild.engine import HEADERS

COVERS = ("build/engines/easybuild/effects/worker.py",)

SHIPPED = Path(__file__).resolve().parents[2] / "recipes"
RECIPE = (SHIPPED / "libfabric.yaml").read_text()

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stackproof(tmp_path: Path) -> Run:
    """Return a function that runs a command line in a folder with the shipped recipe and lock."""
    need("gcc")
    for name in ("libfabric.yaml", "libfabric.lock.json"):
        shutil.copy(SHIPPED / name, tmp_path)

    def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stackproof", *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "STACKPROOF_CACHE": str(tmp_path / "cache"), **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run


@pytest.mark.battery
def test_check_and_plan(stackproof: Run) -> None:
    done = stackproof("check", "libfabric.yaml")
    assert (done.returncode, done.stdout) == (0, "libfabric.yaml: valid\n")
    done = stackproof("plan", "libfabric.yaml")
    assert done.returncode == 0, done.stderr
    for words in ("easybuild 5.4.1", "libfabric/2.1.0", "left out", "ucx", "build libfabric 2.1.0"):
        assert words in done.stdout
    data = json.loads(stackproof("plan", "libfabric.yaml", "--json").stdout)
    assert data["lock"]["components"][0]["component"] == "libfabric"
    assert data["steps"][-1]["name"] == "image"


def test_explain_says_where_a_value_is_from(stackproof: Run) -> None:
    done = stackproof("plan", "libfabric.yaml", "--explain", "libfabric.version")
    assert done.returncode == 0, done.stderr
    assert '"2.1.0"' in done.stdout
    assert "libfabric.yaml:9:" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ('version: "2.1.0"\n  p', 'version: "9.9.9"\n  p', 3, "9.9.9"),
        ("lnx]", "warp]", 3, "libfabric.yaml:10:35"),
        ("engine: easybuild", "engine: easybuilt", 3, "did you mean `easybuild`"),
        ("sources: [debian-trixie]", "sources: [debian-none]", 3, "debian-none"),
        ("sources: [debian-trixie]", "gpu: cuda", 3, "libfabric.yaml"),
    ],
)
def test_what_cannot_be(
    stackproof: Run, tmp_path: Path, old: str, new: str, code: int, said: str
) -> None:
    assert old in RECIPE
    (tmp_path / "libfabric.yaml").write_text(RECIPE.replace(old, new))
    for verb in ("check", "build"):
        done = stackproof(verb, "libfabric.yaml")
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "hint: " in done.stderr
    assert not (tmp_path / "libfabric.squashfs").exists()


def test_a_stale_lock(stackproof: Run, tmp_path: Path) -> None:
    (tmp_path / "libfabric.yaml").write_text(RECIPE.replace(", sm2", ""))
    done = stackproof("check", "libfabric.yaml")
    assert done.returncode == 0
    assert "does not answer" in done.stderr
    done = stackproof("build", "--locked", "libfabric.yaml")
    assert done.returncode == 3
    assert "--update" in done.stderr


def test_a_lock_of_another_engine(stackproof: Run, tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "mpich.lock.json", tmp_path / "libfabric.lock.json")
    done = stackproof("build", "libfabric.yaml")
    assert done.returncode == 3
    assert "libfabric.lock.json" in done.stderr


def test_what_the_machine_lacks(stackproof: Run, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("gcc", "make"):
        (tools / name).symlink_to(shutil.which(name) or "/usr/bin/false")
    done = stackproof("build", "--locked", "libfabric.yaml", PATH=str(tools))
    assert done.returncode == 4
    assert "`autoconf`" in done.stderr
    assert "apt-get install" in done.stderr
    done = stackproof("check", "libfabric.yaml", PATH=str(tools))
    assert done.returncode == 0
    assert "not here: " in done.stderr


def test_a_header_that_the_machine_lacks_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(HEADERS, "none/known.h", ("known-dev", "known1"))
    found = machine_problems(easybuilds.stack(), (), ("none/known.h", "none/other.h"))
    hints = [problem.hint for problem in found if "header file" in problem.message]
    assert hints == [
        "install the package that has it, on Debian and Ubuntu known-dev",
        "install the package that has it",
    ]


def test_what_is_for_other_engines(stackproof: Run, tmp_path: Path) -> None:
    done = stackproof("build", "--on", "slurm", "libfabric.yaml")
    assert done.returncode == 2


@pytest.mark.battery
def test_a_patch_beside_the_recipe(stackproof: Run, tmp_path: Path) -> None:
    """It is taken from there; `check` names one that is missing, and the digest of another."""
    patch = b"--- a/README\n+++ b/README\n@@ -1 +1 @@\n-a\n+b\n"
    sha256 = hashlib.sha256(patch).hexdigest()
    lines = "patches:\n  libfabric:\n    - filename: fix.patch\n      sha256: "
    recipe = tmp_path / "libfabric.yaml"
    recipe.write_text(f"{RECIPE}{lines}{sha256}\n")
    lock = ("build", "--update", "--stop-after", "lock", "libfabric.yaml")
    done = stackproof("check", "libfabric.yaml")
    assert done.returncode == 0
    assert "not here: `fix.patch`, which the recipe names, is not beside the recipe" in done.stderr
    (tmp_path / "fix.patch").write_bytes(b"something else")
    other = hashlib.sha256(b"something else").hexdigest()
    for words in (("check", "libfabric.yaml"), lock):
        done = stackproof(*words)
        assert done.returncode == 5
        assert "`fix.patch` has another SHA-256 than the recipe says" in done.stderr
        place = f"libfabric.yaml:{recipe.read_text().count(chr(10))}:15"
        assert f"--> {place}" in done.stderr
        assert f"write `sha256: {other}`" in done.stderr
    (tmp_path / "fix.patch").write_bytes(patch)
    done = stackproof("check", "libfabric.yaml")
    assert "fix.patch" not in done.stderr
    base = tmp_path / "below" / "base.yaml"  # the patch is beside the file that names it
    base.parent.mkdir()
    recipe.rename(base)
    (tmp_path / "fix.patch").rename(base.parent / "fix.patch")
    recipe.write_text("inherit: below/base.yaml\nname: heir\n")
    done = stackproof(*lock)
    assert done.returncode == 0, done.stderr
    assert "fix.patch" not in stackproof("check", "libfabric.yaml").stderr
    (base.parent / "fix.patch").unlink()
    assert "not here: `fix.patch`" in stackproof("check", "libfabric.yaml").stderr
    recipe.write_text(RECIPE)
    given = tmp_path / "given" / "fix.patch"  # a word names its own file
    given.parent.mkdir()
    given.write_bytes(patch)
    (tmp_path / "fix.patch").write_bytes(b"something else")
    done = stackproof("check", "libfabric.yaml", "--with-patch", f"libfabric={given}")
    assert done.returncode == 0
    assert "fix.patch" not in done.stderr


def test_externals_that_are_not_there(stackproof: Run, tmp_path: Path) -> None:
    text = "on: {path: /nonexistent-tree, modules: [/nonexistent-tree/modules]}\n"
    (tmp_path / "libfabric.yaml").write_text(RECIPE + text)
    done = stackproof("build", "--locked", "libfabric.yaml")
    assert done.returncode == 3
    assert "/nonexistent-tree/modules" in done.stderr


@pytest.mark.battery
def test_without_the_network(stackproof: Run, tmp_path: Path) -> None:
    """What is missing is named, with where to put it; a folder that has it is enough."""
    need("easybuild", "root", "netns")
    base = [sys.executable, "-m", "stackproof", "build", "--locked", "libfabric.yaml"]
    done = subprocess.run(
        ["unshare", "--net", *base],
        cwd=tmp_path,
        env={**os.environ, "STACKPROOF_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 4, done.stderr
    assert (
        "pool/main/libf/libfabric/libfabric_2.1.0.orig.tar.xz` cannot be downloaded" in done.stderr
    )
    assert "--mirror DIR" in done.stderr


def test_lmod_is_found_where_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "lmod" / "libexec" / "lmod"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("LMOD_CMD", str(program))
    assert builder.find_lmod() == program
    assert [bind.target for bind in builder.lmod_binds(program)] == [str(tmp_path / "lmod")]
    assert builder.lmod_binds(Path("/usr/share/lmod/lmod/libexec/lmod")) == ()
