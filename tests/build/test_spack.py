"""Spack for real: two packages from a mirror, built with the system's gcc, to an image that runs.

The same stack is a recipe of stackproof's own and one of Stackinator's. Needs clones of Spack
(`STACKPROOF_SPACK_MIRROR`); everything else is made here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tinysources
from need import need
from stackproof.build.effects import git, source_mirror
from stackproof.build.engines.spack.stack import SpackLock
from stackproof.core.noun import from_json
from stackproof.core.value import Value

_TIMEOUT_S = 1500
# Solving and indexing with clones that are new to the cache takes minutes on a busy machine.
pytestmark = [pytest.mark.machine, pytest.mark.timeout(1800)]
MOUNT = "/user-environment"


class Made(Value, kw_only=False):
    """A folder with both recipes, their locks and their images, and what the builds said."""

    folder: Path
    own: Path
    theirs: Path
    said: dict[str, str]

    def __call__(self, *words: str | Path, ok: int = 0, **environment: str) -> str:
        """Run stackproof in the folder, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "stackproof", *map(str, words)],
            cwd=self.folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert done.returncode == ok, f"{done.stdout}\n{done.stderr}"
        return done.stdout if ok == 0 else done.stderr

    def lock(self, recipe: Path) -> SpackLock:
        """Return the lock of a recipe."""
        return from_json(SpackLock, recipe.with_suffix(".site.lock.json").read_bytes())

    def inside(self, image: str, path: str) -> Any:
        """Return the JSON of a file in an image."""
        argv = ["unsquashfs", "-cat", str(self.folder / image), path]
        return json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=600).stdout)

    def listing(self, image: str) -> dict[str, str]:
        """Return what an image holds, by path: type, mode, size or target."""
        argv = ["unsquashfs", "-lln", str(self.folder / image)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600)
        found = {}
        for line in done.stdout.splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6 and "squashfs-root" in words[5]:
                path, _, target = words[5].partition(" -> ")
                size = "" if words[0].startswith("d") else words[2]
                found[path.removeprefix("squashfs-root")] = f"{words[0]} {size} {target}"
        return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    need("spack", "bubblewrap", "mksquashfs", "gcc")
    folder = tmp_path_factory.mktemp("spack")
    packages = tinysources.fill(folder / "mirror")
    own, theirs = tinysources.write_recipes(folder, packages)
    made = Made(folder=folder, own=own, theirs=theirs, said={})
    for recipe, image in ((own, "own.squashfs"), (theirs, "theirs.squashfs")):
        options = ("--site", "site", "--mirror", "mirror")
        made("build", "--stop-after", "lock", recipe, *options)
        made.said[image] = made("build", "--locked", recipe, *options, "-o", image)
    return made


def test_the_lock_names_packages_and_commits(made: Made):
    lock = made.lock(made.own)
    assert [clone.name for clone in lock.clones] == ["spack", "builtin"]
    assert all(len(clone.commit) == 40 for clone in lock.clones)
    nodes = lock.environments["environments/default"]["concrete_specs"].values()
    found = {node["name"]: node for node in nodes}
    assert found["tiny-four"]["namespace"] == "recipe"
    assert found["tiny-two"]["version"] == "1.0"
    assert found["gcc"]["external"]


def test_both_recipes_are_one_stack(made: Made):
    own, theirs = made.lock(made.own), made.lock(made.theirs)
    assert own.environments == theirs.environments
    assert own.clones == theirs.clones
    assert own.wants == theirs.wants

    def without_recipe(image: str) -> dict[str, str]:
        return {p: w for p, w in made.listing(image).items() if not p.startswith("/meta")}

    assert without_recipe("own.squashfs") == without_recipe("theirs.squashfs")
    metadata = [made.inside(f"{name}.squashfs", "meta/env.json") for name in ("own", "theirs")]
    assert metadata[0].pop("stackproof")["lock"] == metadata[1].pop("stackproof")["lock"]
    assert metadata[0] == metadata[1]


def test_the_image_keeps_the_contract(made: Made):
    data = made.inside("own.squashfs", "meta/env.json")
    assert data["mount"] == MOUNT
    view = data["views"]["all"]
    assert view["root"] == f"{MOUNT}/env/all"
    assert view["env"]["values"]["scalar"]["MPI_TINY"] == "here"
    assert f"{MOUNT}/env/all/bin" in view["env"]["values"]["list"]["PATH"][0]["value"]
    assert data["views"]["spack"]["env"]["values"]["scalar"]["UENV_SPACK_COMMIT"]
    paths = made.listing("own.squashfs")
    for path in (
        "/meta/configure.json", "/meta/bom.cdx.json", "/meta/lock.json", "/meta/recipe/tiny.yaml",
        "/meta/spack.lock/environments/default.json", "/config/packages.yaml",
        "/config/upstreams.yaml", "/repos/spack_repo/recipe/repo.yaml", "/env/all",
    ):  # fmt: skip
        assert path in paths
    tree = paths["/env/all"].rpartition(" ")[2].removeprefix(MOUNT)  # Spack's link to the view
    for name in ("activate.sh", "env.json", "bin/four"):
        assert f"{tree}/{name}" in paths
    gone = [
        path for path, words in paths.items()
        if (target := words.rpartition(" ")[2]).startswith(MOUNT)
        and target.removeprefix(MOUNT) not in paths
    ]  # fmt: skip
    assert gone == []
    assert "/meta/recipe/config.yaml" in made.listing("theirs.squashfs")
    assert all("w" not in line.split()[0][4:10] for p, line in paths.items() if "->" not in line
               and line[0] != "l")  # fmt: skip
    bom = made.inside("own.squashfs", "meta/bom.cdx.json")
    component = next(c for c in bom["components"] if c["name"] == "tiny-four")
    assert component["licenses"] == [{"license": {"name": "MIT"}}]


def test_programs_run_with_the_image_mounted(made: Made):
    need("kernel-mount")
    done = made("run", "--view", "all", "own.squashfs", "--", "sh", "-c", "four; echo $MPI_TINY")
    assert done.splitlines() == ["twice two is 4", "here"]
    linked = made(
        "run", "--view", "all", "own.squashfs", "--", "sh", "-c", "ldd $(command -v four)"
    )
    assert f"{MOUNT}/linux-" in next(line for line in linked.splitlines() if "libtwo" in line)
    assert "all" in made("inspect", "own.squashfs")


def test_a_second_build_has_nothing_to_do(made: Made):
    before = (made.folder / "own.squashfs").stat()
    options = ("--site", "site", "--mirror", "mirror", "-o", "own.squashfs", "--json")
    data = json.loads(made("build", "--locked", made.own, *options))
    assert data["steps_run"] == 0
    assert data["sha256"] in made.said["own.squashfs"]
    assert (made.folder / "own.squashfs").stat().st_mtime_ns == before.st_mtime_ns


def test_a_mirror_is_all_that_a_build_needs(made: Made, monkeypatch: pytest.MonkeyPatch):
    make = ("mirror", "create", "taken", made.own, "--site", "site", "--mirror", "mirror", "--json")
    data = json.loads(made(*make))
    digests = {Path(entry["path"]).name.split(".")[0] for entry in data["sources"]}
    given = source_mirror.contents(made.folder / "mirror").sources
    assert {Path(path).name.split(".")[0] for path in given} <= digests
    monkeypatch.setenv(git.MIRROR_VARIABLE, str(made.folder / "taken" / "git"))
    for clone in made.lock(made.own).clones:
        assert git.find(clone.url).local
        assert git.resolve(clone.url, clone.ref) == clone.commit


def test_sources_that_cannot_be_had_or_have_changed(made: Made):
    kept = Path(os.environ["STACKPROOF_CACHE"]) / "spack" / "sources"
    names = source_mirror.contents(made.folder / "mirror").sources
    for name in names:
        (kept / name).unlink()
    create = ("mirror", "create", "other", made.own, "--site", "site")
    said = made(*create, ok=4, https_proxy="http://127.0.0.1:9")
    for package in ("tiny-two@1.0", "tiny-four@1.0"):
        assert f"the source of `{package}` cannot be had" in said
    changed = made.folder / "changed"
    shutil.copytree(made.folder / "mirror", changed)
    for name in names:
        (changed / name).write_text("x")
    said = made(*create, "--mirror", "changed", ok=5)
    assert "is not the file that its package names" in said
    assert not set(names) & set(source_mirror.contents(made.folder / "other").sources)
    assert not any((kept / name).exists() for name in names)
    # What is in a mirror already is not asked for again.
    shutil.copytree(made.folder / "mirror", made.folder / "begun")
    before = source_mirror.contents(made.folder / "begun").sources
    data = json.loads(made("mirror", "create", "begun", made.own, "--site", "site", "--json"))
    assert {entry["path"] for entry in data["sources"] if not entry["new"]} == set(before)
